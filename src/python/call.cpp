/// Ops as Python callables.
///
/// Each public name is one object that knows its records; a call converts the arguments by schema
/// and enters the door. Vectorcall and the method-descriptor flag keep Python from making argument
/// tuples or bound methods. The objects are made in one loop over the table: nothing here knows any
/// op.
#include "ops/reuse.h"
#include "python/dying.h"
#include "python/overrides.h"
#include "python/remembered.h"
#include "python/slots.h"
#include "python/type.h"

#include <structmember.h>

#include <algorithm>
#include <map>
#include <optional>

#include "ops/random.h"

namespace weft::python {
namespace {

struct OpFunction {
    PyObject_HEAD vectorcallfunc vectorcall;
    const std::vector<const Op*>* overloads;
    Memory* memory;  ///< lives as long as the type
    const Op* lone;  ///< the overload of a call with one tensor and nothing else, or null
    PyObject* name;
    PyObject* qualname;
    bool in_place;
};

[[noreturn]] void fail_arguments(const OpFunction& f, PyObject* const* args, Py_ssize_t count,
                                 PyObject* kwnames, unsigned ways) {
    auto reason = [&](const Op& op) {
        Arguments arguments(Arguments::Explain::Yes);
        arguments.parse(op, args, count, kwnames, ways);
        return arguments.reason();
    };
    Error error(ErrorKind::Type, ops::no_overload(to_text(f.name), *f.overloads, reason));
    tell_function(error, to_text(f.name), args, count);
    throw error;
}

/// out= for ops that make their results themselves: computed apart, then copied there.
PyObject* run_into(Call& c, const std::vector<Tensor>& outs) {
    if (mode & kGradMode) {
        bool wanted = false;
        for (int i = 0; i < c.inputs; ++i) wanted |= c.in[i].defined() && requires_grad(c.in[i]);
        for (const Tensor& out : outs) wanted |= requires_grad(out);
        WEFT_EXPECT(!wanted, Runtime, c.name(), "tensors outside the graph for out=",
                    "one that requires grad (functions with out=... arguments don't support "
                    "automatic differentiation)",
                    "use the result instead of out=");
    }
    ops::call(c);
    for (size_t k = 0; k < outs.size(); ++k)
        if (c.out(static_cast<int>(k)).has(kPending)) ops::settle(c.out(static_cast<int>(k)));
    for (size_t k = 0; k < outs.size(); ++k) {
        ops::write_result(c, outs[k], c.out(static_cast<int>(k)));
        c.out(static_cast<int>(k)) = outs[k];
    }
    return wrap_results(c);
}

void call_over(Call& c, PyObject* dying) {
    if (dying)
        for (int i = 0; i < c.inputs; ++i)
            if (c.in[i].impl() == reinterpret_cast<PyTensor*>(dying)->impl)
                return ops::call_over(c, i);
    ops::call(c);
}

/// Of a factory with an operand, which it takes layouts from alone, and with a device=: the operand,
/// or where that lies elsewhere its layout without memory.
Tensor layout_of(const Tensor& like, Where place) {
    if (like.on_meta() == (place == Where::Meta)) return like;
    return Tensor::layout_like(like, like.dtype());
}

PyObject* run_filled(Call& c, const Arguments& arguments, PyObject* dying) {
    const Op& op = *c.op;
    std::optional<ops::GeneratorScope> draws;
    if (arguments.generator()) draws.emplace(*arguments.generator());
    if (!arguments.destinations().empty()) return run_into(c, arguments.destinations());
    const int dims = arguments.channels_last();
    if (dims && op.memory_format == Formats::Self && channels_are_last(c.in[0], dims)) {
        Tensor same = c.in[0];
        return wrap(std::move(same));
    }
    call_over(c, dying);
    if (dims) c.out(0) = with_channels_last(c.out(0), dims);
    if (arguments.wants_grad())
        for (int k = 0; k < c.outputs; ++k) set_requires_grad(c.out(k), true);
    return wrap_results(c);
}

/// Of a factory that is told where its result lies.
PyObject* run_placed(Call& c, const Arguments& arguments, PyObject* dying) {
    const PlaceScope there(arguments.place());
    Tensor like;
    if (c.inputs) {
        like = layout_of(c.in[0], arguments.place());
        c.in = &like;
    }
    return run_filled(c, arguments, dying);
}

/// `dying`: an argument that nobody reads after this call, or null.
PyObject* run(const OpFunction& f, const Op& op, const Arguments& arguments,
              PyObject* dying = nullptr) {
    Call c(op);
    arguments.fill(c);
    if (f.in_place) {
        c.dest = c.in[0];
        c.in_place = true;
    }
    if (arguments.place() != Where::Unsaid) [[unlikely]]
        return run_placed(c, arguments, dying);
    return run_filled(c, arguments, dying);
}

/// A call like one made before (Note [Remembered calls]).
PyObject* run_again(const OpFunction& f, const Recalled& call, PyObject* dying) {
    Call c(call.op());
    call.fill(c);
    if (f.in_place) {
        c.dest = c.in[0];
        c.in_place = true;
    }
    call_over(c, dying);
    return wrap_results(c);
}

/// `p.add_(-rate, grad)`, `addmm(beta, input, alpha, a, b)`: an order of `op.older_orders`. Null
/// where the arguments are not those. A method has its tensor before all others.
PyObject* call_in_order(const OpFunction& f, const Op& op, const std::vector<std::string>& order,
                        PyObject* const* args, unsigned ways) {
    std::vector<PyObject*> ordered;
    std::vector<const Param*> named;
    for (bool by_name : {false, true})
        for (const Param& p : op.params) {
            auto at = std::ranges::find(order, p.name);
            if (at == order.end() || p.keyword_only != by_name) continue;
            ordered.push_back(args[at - order.begin()]);
            if (by_name) named.push_back(&p);
        }
    auto names = static_cast<Py_ssize_t>(named.size());
    Object keywords = Object::take(PyTuple_New(names));
    for (Py_ssize_t k = 0; k < names; ++k)
        PyTuple_SET_ITEM(keywords.get(), k, py_str(named[k]->name).release());
    Arguments arguments;
    if (!arguments.parse(op, ordered.data(), static_cast<Py_ssize_t>(order.size()) - names,
                         keywords.get(), ways))
        return nullptr;
    std::string advice = text("[", to_text(f.name), "] expected ", named[0]->name,
                              "= by its name after the tensors, got a number before them (This "
                              "overload is deprecated)");
    if (warn_user(advice.c_str()) != 0) throw PythonError{};
    return run(f, op, arguments);
}

PyObject* call_in_older_order(const OpFunction& f, PyObject* const* args, Py_ssize_t count,
                              unsigned ways) {
    for (const Op* op : *f.overloads)
        for (std::vector<std::string> order : op->older_orders) {
            if (order.size() != static_cast<size_t>(count)) continue;
            if (!(ways & Arguments::kOut)) {
                auto self = std::ranges::find(order, op->params[0].name);
                std::rotate(order.begin(), self, self + 1);
            }
            if (PyObject* result = call_in_order(f, *op, order, args, ways)) return result;
        }
    return nullptr;
}

/// The overload that takes one tensor, if that is its only input and all else has a default: such
/// calls need no parsing.
const Op* lone_overload(const std::vector<const Op*>& overloads) {
    for (const Op* op : overloads) {
        bool fits = !op->params.empty() && op->params[0].kind == Param::Kind::Tensor;
        for (size_t k = 1; fits && k < op->params.size(); ++k)
            fits =
                op->params[k].has_default || (op->params[k].is_input() && op->params[k].optional);
        if (fits) return op->inputs == 1 ? op : nullptr;
    }
    return nullptr;
}

PyObject* call_lone(const OpFunction& f, PyObject* arg, bool dies) {
    Tensor in = operand(arg);
    Call c(*f.lone, &in, 1, f.lone->defaults.data());
    if (f.in_place) {
        c.dest = in;
        c.in_place = true;
    }
    if (dies) ops::call_over(c, 0);
    else ops::call(c);
    return wrap_results(c);
}

PyObject* op_vectorcall(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
    const auto& f = *reinterpret_cast<OpFunction*>(self);
    Py_ssize_t count = PyVectorcall_NARGS(nargsf);
    PyObject* answered;
    if (Overrides::known() && Overrides::answer(self, args, count, kwnames, answered)) [[unlikely]]
        return answered;
    if (count == 1 && !kwnames && f.lone && is_tensor(args[0])) {
        const bool dies = dying_argument(self, args, count) >= 0;
        return guarded([&] { return call_lone(f, args[0], dies); });
    }
    bool method = Py_TYPE(self)->tp_descr_get || f.in_place;
    unsigned ways = method ? 0u : Arguments::kOut;
    const int dies = dying_argument(self, args, count);
    return guarded([&]() -> PyObject* {
        PyObject* dying = dies < 0 ? nullptr : args[dies];
        if (const Ref<Remembered>& like = f.memory->find(args, count, kwnames)) {
            Recalled call(like);
            if (call.take(args)) return run_again(f, call, dying);
        }
        for (const Op* op : *f.overloads) {
            Arguments arguments;
            if (!arguments.parse(*op, args, count, kwnames, ways)) continue;
            f.memory->keep(*f.overloads, *op, arguments, args, count, kwnames);
            return run(f, *op, arguments, dying);
        }
        for (const Op* op : *f.overloads) {
            Arguments arguments;
            if (arguments.parse(*op, args, count, kwnames, ways | Arguments::kLenient))
                return run(f, *op, arguments);
        }
        PyObject* result = kwnames ? nullptr : call_in_older_order(f, args, count, ways);
        if (!result && Overrides::known_for(args, count, kwnames) &&
            Overrides::answer(self, args, count, kwnames, answered))
            return answered;
        if (!result) fail_arguments(f, args, count, kwnames, ways);
        return result;
    });
}

PyObject* method_get(PyObject* self, PyObject* object, PyObject*) {
    if (!object || object == Py_None) return Py_NewRef(self);
    return PyMethod_New(self, object);
}

PyObject* function_repr(PyObject* self) {
    auto* f = reinterpret_cast<OpFunction*>(self);
    return PyUnicode_FromFormat("<built-in %s %U>",
                                Py_TYPE(self)->tp_descr_get ? "method" : "function", f->name);
}

/// Pickles and copies by name, so that a module holding `F.relu` can be saved and copied.
PyObject* function_reduce(PyObject* self, PyObject*) {
    return Py_NewRef(reinterpret_cast<OpFunction*>(self)->qualname);
}

/// Where pickle looks the name up.
PyObject* function_module(PyObject*, void*) { return PyUnicode_InternFromString("weft._C"); }

/// What follows from the record and so is not in its doc: the shapes of a pointwise op, and what an
/// in-place form keeps.
std::string shapes_of(const Op& op, bool in_place) {
    std::string said;
    if (op.pointwise) {
        std::string names;
        int tensors = 0;
        for (const Param& p : op.params)
            if (p.kind == Param::Kind::Tensor) {
                names += text(tensors++ ? ", `" : "`", p.name, "`");
            }
        said = tensors == 1
                   ? text("Elementwise: the result has the shape of ", names, ".\n")
                   : text("Elementwise: ", names, " broadcast to the shape of the result.\n");
    }
    if (in_place)
        said += text("Written over `", op.params[0].name, "`: its shape and dtype stay.\n");
    return said;
}

/// Schema, doc and shapes of a record, the example last.
std::string doc_of(const Op& op, bool in_place) {
    const std::string_view doc = op.doc;
    size_t example = doc.find(">>>");
    if (example == doc.npos) example = doc.size();
    size_t end = example;
    while (end && doc[end - 1] == '\n') --end;
    return text(op.schema, "\n\n", doc.substr(0, end), "\n", shapes_of(op, in_place),
                example < doc.size() ? "\n" : "", doc.substr(example));
}

PyObject* function_doc(PyObject* self, void*) {
    auto* f = reinterpret_cast<OpFunction*>(self);
    std::string doc;
    for (const Op* op : *f->overloads) doc += doc_of(*op, f->in_place) + "\n\n";
    return py_str(doc).release();
}

/// Where the record stands, for weft.tools.where: "src/ops/unary.cpp:12".
PyObject* function_where(PyObject* self, void*) {
    auto* f = reinterpret_cast<OpFunction*>(self);
    const Op& op = *f->overloads->front();
    std::string_view file = op.where.file_name();
    size_t src = file.rfind("src/");
    if (src != file.npos) file.remove_prefix(src);
    return PyUnicode_FromString(text(file, ":", op.where.line()).c_str());
}

PyMethodDef function_methods[] = {{"__reduce__", function_reduce, METH_NOARGS, nullptr}, {}};
PyMemberDef function_members[] = {
    {"__name__", T_OBJECT, offsetof(OpFunction, name), READONLY, nullptr},
    {"__qualname__", T_OBJECT, offsetof(OpFunction, qualname), READONLY, nullptr},
    {}};
PyGetSetDef function_getset[] = {{"__doc__", function_doc, nullptr, nullptr, nullptr},
                                 {"__where__", function_where, nullptr, nullptr, nullptr},
                                 {"__module__", function_module, nullptr, nullptr, nullptr},
                                 {}};

/// _set_remembering(on): whether calls like earlier ones skip parsing; returns the setting before.
PyObject* set_remembering(PyObject*, PyObject* on) {
    return PyBool_FromLong(std::exchange(Memory::enabled, on == Py_True));
}
PyMethodDef call_functions[] = {{"_set_remembering", set_remembering, METH_O, nullptr}, {}};

PyTypeObject function_type = blank_type();
PyTypeObject method_type = blank_type();

void ready(PyTypeObject& type, const char* name, unsigned long flags = 0) {
    type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | flags;
    type.tp_vectorcall_offset = offsetof(OpFunction, vectorcall);
    type.tp_call = PyVectorcall_Call;
    type.tp_repr = function_repr;
    type.tp_methods = function_methods;
    type.tp_members = function_members;
    type.tp_getset = function_getset;
    ready_type(type, name, sizeof(OpFunction));
}

PyObject* make_function(PyTypeObject& type, const std::string& name, const std::string& prefix,
                        const std::vector<const Op*>* overloads, bool in_place) {
    auto* f = reinterpret_cast<OpFunction*>(checked(type.tp_alloc(&type, 0)));
    f->vectorcall = op_vectorcall;
    f->overloads = overloads;
    f->lone = lone_overload(*overloads);
    f->memory = new Memory;
    f->name = py_str(name).release();
    f->qualname = py_str(prefix + name).release();
    f->in_place = in_place;
    return reinterpret_cast<PyObject*>(f);
}

using Groups = std::map<std::string, std::vector<const Op*>>;

void add_all(Groups& groups, PyObject* dict, PyTypeObject& type, const std::string& prefix,
             bool in_place) {
    for (auto& [name, overloads] : groups) {
        auto* kept = new std::vector<const Op*>(std::move(overloads));  // lives as long as the type
        Object f = Object::steal(make_function(type, name, prefix, kept, in_place));
        checked(PyDict_SetItemString(dict, name.c_str(), f.get()));
    }
}

/// Records in groups of one public name: functions, methods, in-place methods, internal ones.
void register_ops(PyObject* module) {
    Groups functions, methods, in_place, in_place_functions, internal;
    for (const Op& op : table().all()) {
        if (op.until) continue;
        std::vector<std::string> names{op.public_name};
        names.insert(names.end(), op.aliases.begin(), op.aliases.end());
        for (const std::string& name : names) {
            if (op.function) functions[name].push_back(&op);
            if (op.method && op.inputs > 0) methods[name].push_back(&op);
            if (op.inplace) in_place[name + "_"].push_back(&op);
            if (op.inplace && op.function) in_place_functions[name + "_"].push_back(&op);
            internal[name].push_back(&op);
        }
    }
    PyObject* type_dict = tensor_type.tp_dict;
    add_all(methods, type_dict, method_type, "Tensor.", false);
    add_all(in_place, type_dict, method_type, "Tensor.", true);
    PyType_Modified(&tensor_type);
    add_all(functions, PyModule_GetDict(module), function_type, "", false);
    add_all(in_place_functions, PyModule_GetDict(module), function_type, "", true);
    Object ops = Object::take(PyModule_New("weft._C.ops"));
    add_all(internal, PyModule_GetDict(ops.get()), function_type, "ops.", false);
    add_object(module, "ops", ops.get());
}

}  // namespace

PyObject* call_binary(const Op& op, PyObject* a, PyObject* b) {
    const int dies = dying_operand(a, b);
    return guarded([&]() -> PyObject* {
        const bool ta = is_tensor(a), tb = is_tensor(b);
        Tensor in[2] = {ta ? operand(a) : Tensor(), tb ? operand(b) : Tensor()};
        if (!ta || !tb) {
            PyObject* other = ta ? b : a;
            if (!is_number(other)) Py_RETURN_NOTIMPLEMENTED;
            in[ta ? 1 : 0] = number_tensor(other, &in[ta ? 0 : 1]);
        }
        Call c(op, in, 2, op.defaults.data());
        if (dies < 0) ops::call(c);
        else ops::call_over(c, dies);
        return wrap(std::move(c.out(0)));
    });
}

void init_calls(PyObject* module) {
    ready(function_type, "weft.Function");
    method_type.tp_descr_get = method_get;
    ready(method_type, "weft.Method", Py_TPFLAGS_METHOD_DESCRIPTOR);
    register_ops(module);
    checked(PyModule_AddFunctions(module, call_functions));
}

}  // namespace weft::python
