/// Calls that an argument's class, or a mode, answers in place of weft: `__torch_function__`.
///
/// Note [Overrides]
/// PyTorch's protocol (NEP 18's, https://pytorch.org/docs/stable/notes/extending.html): a public function or
/// method asks its arguments whose class has a `__torch_function__`, subclasses first, and before them the
/// mode that was entered last (weft/overrides.py), for the result. It is asked for where Python enters the package: by
/// the callables of ops (call.cpp), of functions in Python (checked.cpp), number slots, and `Overridable`, which
/// stands for every other method and property of Tensor. Below the door nobody knows of it.
///
/// A program without such classes pays a load and a branch per call: nobody looks before `known` is
/// set, which is when the first tensor of such a class is made (`note_class`), a mode is entered, or an
/// argument that is no tensor turns up with the method. It stays set. What is asked on a thread are
/// bits of `mode`, so scopes nest, and examples of a batch take them along.
///
/// `Tensor.__torch_function__` itself (weft/overrides.py) runs the function with kOwnMode set, and gives the results the
/// class: that is how operations on a subclass keep it.
#pragma once
#include "python/object.h"

namespace weft::python {

class Overrides {
public:
    /// Whether a call has to look at all.
    static bool known() { return known_; }
    /// A tensor of the class `cls` is made.
    static void note_class(PyTypeObject* cls);
    /// Whether `o`'s class has a `__torch_function__` that is asked.
    static bool has(PyObject* o);
    /// Whether a call with these arguments has to look, which may be the first with such a class.
    static bool known_for(PyObject* const* args, Py_ssize_t count, PyObject* kwnames) {
        constexpr auto kinds =
            Py_TPFLAGS_HEAPTYPE | Py_TPFLAGS_LIST_SUBCLASS | Py_TPFLAGS_TUPLE_SUBCLASS;
        const Py_ssize_t total = count + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
        for (Py_ssize_t i = 0; i < total && !known_; ++i)
            if (Py_TYPE(args[i])->tp_flags & kinds) [[unlikely]]
                look_at(args[i]);
        return known_;
    }
    /// If one answers the call of `function`, true, and `out` is the result, or null with an exception set. The values of
    /// `kwnames` follow the `count` positional ones.
    static bool answer(PyObject* function, PyObject* const* args, Py_ssize_t count,
                       PyObject* kwnames, PyObject*& out);
    /// The same of the attribute `name` of Tensor, as slots have it.
    static bool answer(const char* name, std::initializer_list<PyObject*> args, PyObject*& out);

    friend void init_overrides(PyObject* module);

private:
    static PyObject* enter(PyObject*, PyObject*);
    /// Notes whether the class of an argument, or of an item of it, overrides.
    static void look_at(PyObject* o);
    static inline bool known_ = false;
};

/// `F` of a slot, unless an argument's class or a mode answers in its place.
template <class F>
PyObject* overridable(const char* name, std::initializer_list<PyObject*> args, F&& f) {
    PyObject* out;
    if (Overrides::known() && Overrides::answer(name, args, out)) [[unlikely]]
        return out;
    return f();
}
/// Of a slot whose result is an int, by `to_int`, which drops the reference.
template <class To, class F>
auto overridable(const char* name, std::initializer_list<PyObject*> args, To&& to, F&& f)
    -> std::invoke_result_t<F> {
    PyObject* out;
    if (Overrides::known() && Overrides::answer(name, args, out)) [[unlikely]]
        return out ? to(Object::steal(out).get()) : -1;
    return f();
}

/// What stands in the dict of Tensor for `thing`, a method or a property: a new reference.
PyObject* overridable_member(PyObject* thing);
void init_overrides(PyObject* module);

}  // namespace weft::python
