/// How guards look things up: what CPython's own look-ups do, with the words that each answer depends on.
#include "python/module_slots.h"
#include "python/program_guards.h"
// After Python.h, which it does not include.
#include <structmember.h>

namespace weft::python {
namespace {

/// Names that are looked for; made with the first guards.
struct GuardNames {
    static PyObject* interned(const char* name) {
        return checked(PyUnicode_InternFromString(name));
    }
    PyObject* getattribute = interned("__getattribute__");
    PyObject* getattr = interned("__getattr__");
    PyObject* call = interned("__call__");
    PyObject* func = interned("__func__");
    PyObject* class_ = interned("__class__");
    PyObject* forward = interned("forward");
    PyObject* hooked = interned("_hooked");
    PyObject* call_with_hooks = interned("_call_with_hooks");
    PyObject* descriptor[3] = {interned("__get__"), interned("__set__"), interned("__delete__")};
    PyObject* tables[3] = {interned("_parameters"), interned("_modules"), interned("_buffers")};
    PyObject* hooks[4] = {interned("_forward_hooks"), interned("_forward_pre_hooks"),
                          interned("_backward_hooks"), interned("_backward_pre_hooks")};
    /// `object.__getattribute__`, and so on.
    PyObject* of_object = lookup(&PyBaseObject_Type, getattribute);
    PyObject* of_type = lookup(&PyType_Type, getattribute);
    PyObject* of_module = lookup(&PyModule_Type, getattribute);
    PyObject* class_descriptor = lookup(&PyBaseObject_Type, class_);
    PyObject* tuple_getter = import_attr("_collections", "_tuplegetter").release();

    static PyObject* lookup(PyTypeObject* type, PyObject* name) {
        return Py_NewRef(_PyType_Lookup(type, name));
    }
};
const GuardNames& names() {
    static const GuardNames all;
    return all;
}

PyTypeObject* as_type(PyObject* o) { return reinterpret_cast<PyTypeObject*>(o); }

bool is_mutable(PyTypeObject* type) {
    return PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) &&
           !PyType_HasFeature(type, Py_TPFLAGS_IMMUTABLETYPE);
}

bool is_data_descriptor(PyObject* o) {
    return Py_TYPE(o)->tp_descr_get && Py_TYPE(o)->tp_descr_set;
}

/// Whether the `__get__` of what was found in a class runs no code of users, and gives the same each time.
bool binds_plainly(PyObject* found, PyObject* self) {
    PyTypeObject* type = Py_TYPE(found);
    if (type == &PyFunction_Type || type == &PyStaticMethod_Type || type == &PyMethod_Type ||
        type == &PyMethodDescr_Type || type == &PyClassMethodDescr_Type ||
        type == &PyWrapperDescr_Type)
        return true;
    if (type == &PyClassMethod_Type) {  // which may ask the `__get__` of what it wraps
        Object inner = Object::steal(PyObject_GenericGetAttr(found, names().func));
        return inner && (PyFunction_Check(inner.get()) || !Py_TYPE(inner.get())->tp_descr_get);
    }
    if (!self && (type == &PyProperty_Type || type == &PyMemberDescr_Type ||
                  type == &PyGetSetDescr_Type || type == as_type(names().tuple_getter)))
        return true;
    return PyType_HasFeature(type, Py_TPFLAGS_METHOD_DESCRIPTOR) && !is_mutable(type);
}

}  // namespace

void Guards::meet_type(PyTypeObject* type, bool whole) {
    if (!type->tp_version_tag) _PyType_Lookup(type, names().getattribute);  // it gets one
    met_.push_back({Kind::Type, type, reinterpret_cast<PyObject*>(type), whole});
}

void Guards::meet_dict(PyObject* dict, bool whole) {
    met_.push_back({Kind::Dict, dict, dict, whole});
}

/// What an attribute of a class does depends on the attribute's class, where that can change.
void Guards::meet_class_of(PyObject* found) {
    PyTypeObject* type = Py_TYPE(found);
    if (!is_mutable(type)) return;
    meet_field(found, &found->ob_type);
    meet_type(type);
    for (PyObject* name : names().descriptor) get(type, name);
}

/// The value of a key of a dictionary that was met; borrowed, or null.
PyObject* Guards::get(PyObject* dict, PyObject* name) {
    PyObject* value = PyDict_GetItemWithError(dict, name);
    asked_.push_back({dict, name, value});
    return value;
}

/// An attribute of a class that was met, not bound; borrowed, or null.
PyObject* Guards::get(PyTypeObject* type, PyObject* name) {
    PyObject* value = _PyType_Lookup(type, name);
    asked_.push_back({type, name, value});
    return value;
}

/// Whether attributes are looked up as `object` does; what happens to those that are missing is another
/// question.
bool Guards::looks_up_plainly(PyTypeObject* type) {
    PyObject* way = get(type, names().getattribute);
    return type->tp_getattro == PyObject_GenericGetAttr ||
           type->tp_getattro == PyModule_Type.tp_getattro || way == names().of_object ||
           way == names().of_module;
}

Guards::Found Guards::find(const Read& read) {
    PyObject *holder = read.holder.get(), *other = read.other.get(), *name = read.name.get();
    Found found;
    switch (read.what) {
        case What::Attribute:
            found = other ? find_in_super(other, holder, name) : find_attribute(holder, name);
            break;
        case What::InClass:
            meet_type(as_type(holder));
            found.value = get(as_type(holder), name);
            found.from = found.value ? From::Value : From::Nothing;
            break;
        case What::Global:
            found = find_global(holder, other, name);
            break;
        case What::Field:
            meet_field(holder, read.at);
            found.from = From::Value;
            std::memcpy(&found.value, read.at, sizeof found.value);
            break;
        case What::Items:
            if (PyDict_Check(holder)) meet_dict(holder, /*whole=*/true);
            found = {From::Value, holder};
            break;
        case What::Call:
            found = find_call(holder);
            break;
    }
    if (PyErr_Occurred()) {
        PyErr_Clear();
        return {};
    }
    return found;
}

Guards::Found Guards::find_attribute(PyObject* holder, PyObject* name) {
    meet_field(holder, &holder->ob_type);
    meet_type(Py_TYPE(holder));
    return PyType_Check(holder) ? find_in_type(holder, name) : find_in_object(holder, name);
}

Guards::Found Guards::find_in_object(PyObject* holder, PyObject* name) {
    PyTypeObject* type = Py_TYPE(holder);
    if (!looks_up_plainly(type)) return {};
    PyObject* of_class = get(type, name);
    bool denied = false;
    if (of_class) {
        meet_class_of(of_class);
        if (is_data_descriptor(of_class)) {
            Found found = find_data(of_class, holder);
            if (found.from != From::Nothing) return found;
            denied = true;  // a slot without a value
        }
    }
    PyObject** at = _PyObject_GetDictPtr(holder);
    PyObject* dict = at ? *at : nullptr;
    if (at) meet_field(holder, at);
    if (dict) {
        meet_dict(dict);
        if (PyObject* value = denied ? nullptr : get(dict, name)) return {From::Value, value};
    }
    if (!of_class || denied) return find_missing(holder, dict, name);
    if (Py_TYPE(of_class)->tp_descr_get && !binds_plainly(of_class, holder)) return {};
    return {From::Class, of_class, holder, reinterpret_cast<PyObject*>(type)};
}

/// What `__getattr__` gives where there is one.
Guards::Found Guards::find_missing(PyObject* holder, PyObject* dict, PyObject* name) {
    PyTypeObject* type = Py_TYPE(holder);
    if (PyModule_Check(holder) && dict && get(dict, names().getattr)) return {};
    PyObject* way = get(type, names().getattr);
    if (!way) return {From::Nothing};
    return way == module_ways.getattr && dict ? find_in_tables(dict, name) : Found{};
}

/// What `Module.__getattr__` gives.
Guards::Found Guards::find_in_tables(PyObject* dict, PyObject* name) {
    for (PyObject* which : names().tables) {
        PyObject* table = get(dict, which);
        if (!table || !PyDict_Check(table)) continue;
        meet_dict(table);
        if (PyObject* value = get(table, name)) return {From::Value, value};
    }
    return {From::Nothing};
}

Guards::Found Guards::find_data(PyObject* descriptor, PyObject* holder) {
    PyTypeObject* type = Py_TYPE(descriptor);
    if (type == &PyProperty_Type) return {From::Property, descriptor, holder};
    if (descriptor == names().class_descriptor)
        return {From::Value, reinterpret_cast<PyObject*>(Py_TYPE(holder))};
    if (type == as_type(names().tuple_getter) && PyTuple_Check(holder)) {
        PyObject* item =
            type->tp_descr_get(descriptor, holder, reinterpret_cast<PyObject*>(Py_TYPE(holder)));
        Py_XDECREF(item);  // the tuple holds it
        return item ? Found{From::Value, item} : Found{};
    }
    if (type != &PyMemberDescr_Type || !PyObject_TypeCheck(holder, PyDescr_TYPE(descriptor)))
        return {};
    const PyMemberDef* member = reinterpret_cast<PyMemberDescrObject*>(descriptor)->d_member;
    const bool may_lack = member->type == T_OBJECT_EX;
    if ((!may_lack && member->type != T_OBJECT) || (member->flags & ~READONLY)) return {};
    const char* at = reinterpret_cast<const char*>(holder) + member->offset;
    meet_field(holder, at);
    PyObject* value;
    std::memcpy(&value, at, sizeof value);
    if (value) return {From::Value, value};
    return may_lack ? Found{From::Nothing} : Found{From::Value, Py_None};
}

Guards::Found Guards::find_in_type(PyObject* holder, PyObject* name) {
    PyTypeObject *type = as_type(holder), *meta = Py_TYPE(holder);
    if (get(meta, names().getattribute) != names().of_type) return {};
    meet_type(type);
    PyObject* of_meta = get(meta, name);
    if (of_meta) {
        meet_class_of(of_meta);
        if (of_meta == names().class_descriptor)
            return {From::Value, reinterpret_cast<PyObject*>(meta)};
        if (is_data_descriptor(of_meta)) return {};
    }
    if (PyObject* found = get(type, name)) {
        meet_class_of(found);
        if (Py_TYPE(found)->tp_descr_get && !binds_plainly(found, nullptr)) return {};
        return {From::Class, found, nullptr, holder};
    }
    if (of_meta) {
        if (Py_TYPE(of_meta)->tp_descr_get && !binds_plainly(of_meta, holder)) return {};
        return {From::Meta, of_meta, holder, reinterpret_cast<PyObject*>(meta)};
    }
    if (get(meta, names().getattr)) return {};
    return {From::Nothing};
}

/// What `super(cls, self)` finds.
Guards::Found Guards::find_in_super(PyObject* cls, PyObject* self, PyObject* name) {
    meet_field(self, &self->ob_type);
    const bool of_class = PyType_Check(self) && PyType_IsSubtype(as_type(self), as_type(cls));
    PyTypeObject* start = of_class ? as_type(self) : Py_TYPE(self);
    if (!PyType_IsSubtype(start, as_type(cls)) || name == names().class_) return {};
    meet_type(start, /*whole=*/true);  // a change of a class is one of those below it
    PyObject* order = start->tp_mro;
    Py_ssize_t i = 0;
    const Py_ssize_t n = PyTuple_GET_SIZE(order);
    while (i < n && PyTuple_GET_ITEM(order, i) != cls) ++i;
    for (++i; i < n; ++i) {
#if PY_VERSION_HEX < 0x030C0000
        Object dict = Object::borrow(as_type(PyTuple_GET_ITEM(order, i))->tp_dict);
#else
        Object dict = Object::steal(PyType_GetDict(as_type(PyTuple_GET_ITEM(order, i))));
#endif
        PyObject* found = dict ? PyDict_GetItemWithError(dict.get(), name) : nullptr;
        if (!found) continue;
        meet_class_of(found);
        PyObject* bound_to = of_class ? nullptr : self;
        if (bound_to && Py_IS_TYPE(found, &PyProperty_Type)) return {From::Property, found, self};
        if (Py_TYPE(found)->tp_descr_get && !binds_plainly(found, bound_to)) return {};
        return {From::Class, found, bound_to, reinterpret_cast<PyObject*>(start)};
    }
    return {};
}

Guards::Found Guards::find_global(PyObject* globals, PyObject* builtins, PyObject* name) {
    for (PyObject* dict : {globals, builtins}) {
        if (!dict || !PyDict_CheckExact(dict)) return {};
        meet_dict(dict);
        if (PyObject* value = get(dict, name)) return {From::Value, value};
    }
    return {From::Nothing};
}

/// The `forward` of a Module whose call does nothing else.
Guards::Found Guards::find_call(PyObject* module) {
    Found forward = find_attribute(module, names().forward);
    if ((forward.from != From::Value && forward.from != From::Class) || has_hooks(module))
        return {};
    return forward;
}

/// Whether a call of `module` may do more than to run `forward`. Once raised, the flag of an instance stays.
bool Guards::has_hooks(PyObject* module) {
    PyTypeObject* type = Py_TYPE(module);
    PyObject** at = _PyObject_GetDictPtr(module);
    if (!at || !*at || PyType_Check(module)) return true;
    PyObject* dict = *at;
    meet_field(module, at);
    meet_dict(dict);
    if (!module_ways.call || get(type, names().call) != module_ways.call ||
        get(type, names().hooked) != Py_False)
        return true;
    if (!get(dict, names().hooked)) return false;
    if (get(type, names().call_with_hooks) != module_ways.call_with_hooks ||
        get(dict, names().call_with_hooks))
        return true;
    for (PyObject* which : names().hooks) {
        PyObject* table = get(dict, which);
        if (!table) continue;
        if (!PyDict_CheckExact(table) && !PyODict_CheckExact(table)) return true;
        meet_dict(table, /*whole=*/true);
        if (PyDict_GET_SIZE(table)) return true;
    }
    return false;
}

}  // namespace weft::python
