/// What a call returns: a tensor, a tuple, or a named tuple such as torch.return_types.max.
#include "python/object.h"

#include <structmember.h>

#include <map>

namespace weft::python {
namespace {

PyObject* named_repr(PyObject* self) {
    return guarded([&] {
        PyTypeObject* type = Py_TYPE(self);
        std::string out = text(type->tp_name, "(");
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self); ++i) {
            Object shown = Object::take(PyObject_Repr(PyTuple_GET_ITEM(self, i)));
            out += text(i ? ",\n" : "\n", type->tp_members[i].name, "=", to_text(shown.get()));
        }
        return py_str(out + ")").release();
    });
}

/// One type per op with named outputs, made on first use and kept.
PyTypeObject* named_type(const Op& op) {
    static auto* types = new std::map<const Op*, PyTypeObject*>;
    auto [it, fresh] = types->try_emplace(&op, nullptr);
    if (!fresh) return it->second;
    int n = static_cast<int>(op.output_names.size());
    auto* fields = new PyStructSequence_Field[n + 1]();
    for (int k = 0; k < n; ++k) fields[k].name = op.output_names[k].c_str();
    auto* name = new std::string("torch.return_types." + op.public_name);
    auto* desc = new PyStructSequence_Desc{name->c_str(), nullptr, fields, n};
    PyTypeObject* type = PyStructSequence_NewType(desc);
    checked(type);
    type->tp_repr = named_repr;
    // where pickles find it: weft's, under `weft run` too
    checked(PyObject_SetAttrString(reinterpret_cast<PyObject*>(type), "__module__",
                                   py_str("weft.return_types").get()));
    return it->second = type;
}

}  // namespace

PyObject* named_results(std::string_view name, const std::vector<std::string>& fields,
                        PyObject* items) {
    for (const Op& op : table().all()) {
        if (op.public_name != name || op.output_names != fields) continue;
        Object out = Object::take(PyStructSequence_New(named_type(op)));
        for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(items); ++k)
            PyTuple_SET_ITEM(out.get(), k, Py_NewRef(PyTuple_GET_ITEM(items, k)));
        return out.release();
    }
    return Py_NewRef(items);
}

PyObject* wrap_results(Call& c) {
    if (c.outputs == 1 && c.op->outputs >= 0) return wrap(std::move(c.out(0)));
    bool named = !c.op->output_names.empty();
    Object out =
        Object::take(named ? PyStructSequence_New(named_type(*c.op)) : PyTuple_New(c.outputs));
    for (int k = 0; k < c.outputs; ++k)
        PyTuple_SET_ITEM(out.get(), k, checked(wrap(std::move(c.out(k)))));
    return out.release();
}

}  // namespace weft::python
