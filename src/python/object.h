/// The Python objects of the binding, and how they map to the core's handles.
///
/// Raw CPython, not a binding generator: a number slot costs half of what a generated operator does
/// (docs/decisions/0001-binding.md), and that is most of a small op. Only src/python may know it.
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <cxxabi.h>

#include <string>

#include "autograd/meta.h"
#include "deferred/pending.h"
#include "mapped/level.h"
#include "ops/call.h"

namespace weft::kernels {
class Generator;
}

namespace weft::python {

/// Thrown when a Python exception is set: C++ only unwinds.
struct PythonError {};
/// The exception in flight, to be thrown again when other Python code has run: a PythonError becomes
/// one that holds its exception. Call in a catch block.
std::exception_ptr keep_exception();

/// Sets the Python exception for the C++ one in flight. Call in a catch block.
void set_python_error();
/// `f` of the exception that is set, which stays so whatever `f` does.
void with_error(FunctionRef<void(PyObject*)> f);
/// Says with the exception that is set which call failed (weft/base/failures.py); with one of which that
/// is said, in which module.
/// Returns false if it was said already.
bool tell_call(std::string_view context);
void tell_module(PyObject* module);
/// Throws PythonError if `condition` (a result of the C API) says that an exception is set.
template <class T>
T checked(T result) {
    if constexpr (std::is_pointer_v<T>) {
        if (!result) throw PythonError{};
    } else {
        if (result < 0) throw PythonError{};
    }
    return result;
}

class Object;
/// The exception that is set, with its traceback; none is set afterwards.
Object take_exception();

/// Sets the pending exception aside for the scope; what is raised meanwhile is dropped.
class SetAside {
public:
    SetAside() { PyErr_Fetch(&type_, &value_, &trace_); }
    ~SetAside() { PyErr_Restore(type_, value_, trace_); }
    SetAside(const SetAside&) = delete;

private:
    PyObject *type_, *value_, *trace_;
};

/// Runs `f`, turning C++ exceptions into Python's and `on_error` (nullptr or -1).
template <class F, class R = std::invoke_result_t<F>>
R guarded(F&& f, R on_error = R()) {
    try {
        return f();
    } catch (...) {
        set_python_error();
        return on_error;
    }
}
template <class F>
int guarded_int(F&& f) {
    return guarded(std::forward<F>(f), -1);
}

/// Note [Threads at exit]
/// Once the interpreter is being finalized, CPython before 3.14 ends a daemon thread that wants the
/// lock where it stands, by unwinding its stack (`pthread_exit`). Destructors of our frames would
/// then touch objects without the lock, and those that may not throw would end the process. So
/// where our frames let go of the lock (`Unlocked`) or call Python code, the unwinding is stopped
/// and the thread stays there until the process ends, which is what CPython 3.14 does.
[[noreturn]] void stay_until_exit();

/// Runs `f`, which may let other threads have the lock: see Note [Threads at exit]. What the handler
/// is given is no object of C++, so its reference is null, which UBSAN would tell (once inlined, where
/// its alignment is looked at).
template <class F>
__attribute__((no_sanitize("null", "alignment"))) auto into_python(F&& f) {
    try {
        return f();
    } catch (const abi::__forced_unwind&) {
        stay_until_exit();
    }
}

/// Python's lock for the scope, on a thread that may not hold it.
class Lock {
public:
    Lock() : state_(into_python([] { return PyGILState_Ensure(); })) {}
    ~Lock() { PyGILState_Release(state_); }
    Lock(const Lock&) = delete;

private:
    PyGILState_STATE state_;
};

/// Frees a Py_buffer that keeps memory for a storage: its deleter, on whichever thread.
inline void release_buffer(void* owner) {
    auto* view = static_cast<Py_buffer*>(owner);
    Lock lock;
    PyBuffer_Release(view);
    delete view;
}

/// Shows a UserWarning, at the line of the program that runs, if one does; -1 if it became an exception. While
/// layouts alone are traced it throws Runtime: the calls themselves will warn.
int warn_user(const char* message);

/// An owned PyObject*.
class Object {
public:
    Object() = default;
    static Object steal(PyObject* p) {
        Object o;
        o.p_ = p;
        return o;
    }
    /// Takes a new reference returned by the C API; throws if it is null.
    static Object take(PyObject* p) { return steal(checked(p)); }
    static Object borrow(PyObject* p) {
        Py_XINCREF(p);
        return steal(p);
    }
    Object(const Object& o) : p_(o.p_) { Py_XINCREF(p_); }
    Object(Object&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
    Object& operator=(Object o) noexcept {
        std::swap(p_, o.p_);
        return *this;
    }
    ~Object() { Py_XDECREF(p_); }
    PyObject* get() const { return p_; }
    PyObject* release() { return std::exchange(p_, nullptr); }
    explicit operator bool() const { return p_ != nullptr; }
    Object attr(const char* name) const {
        return take(into_python([&] { return PyObject_GetAttrString(p_, name); }));
    }
    template <class... A>
    Object call(const A&... args) const {
        PyObject* argv[] = {nullptr, args.get()...};
        constexpr size_t count = sizeof...(A) | PY_VECTORCALL_ARGUMENTS_OFFSET;
        return take(into_python([&] { return PyObject_Vectorcall(p_, argv + 1, count, nullptr); }));
    }

private:
    PyObject* p_ = nullptr;
};

/// A static type to fill in and pass to PyType_Ready.
inline PyTypeObject blank_type() {
    PyTypeObject t{};
    Py_SET_REFCNT(reinterpret_cast<PyObject*>(&t), 1);
    return t;
}

inline Object none() { return Object::borrow(Py_None); }
inline Object py_int(int64_t v) { return Object::take(PyLong_FromLongLong(v)); }
inline Object py_str(std::string_view s) {
    return Object::take(PyUnicode_FromStringAndSize(s.data(), static_cast<Py_ssize_t>(s.size())));
}
std::string_view to_text(PyObject* str);
Object import_attr(const char* module, const char* name);
/// Adds `object` to `module` under `name`; throws PythonError.
void add_object(PyObject* module, const char* name, PyObject* object);

// ---- tensors (tensor.cpp)

/// Note [Wrapper and tensor]
/// A PyTensor owns a TensorImpl, whose `wrapper` points back, so a tensor is one Python object as
/// long as that lives. When the last Python reference goes while the core still holds the tensor,
/// a plain wrapper just dies (another is made when needed). One with attributes or of a subclass
/// (a Parameter) must not lose them: ownership turns round, and the tensor keeps the wrapper
/// (kOwnsWrapper) until Python sees it again.
struct PyTensor {
    PyObject_HEAD TensorImpl* impl;
    PyObject* dict;
    PyObject* weakrefs;
};
extern PyTypeObject tensor_type;

inline bool is_tensor(PyObject* o) {
    return Py_TYPE(o) == &tensor_type || PyType_IsSubtype(Py_TYPE(o), &tensor_type);
}
/// The tensor in `o` for questions about its layout; it may be pending.
inline Tensor handle(PyObject* o) { return Tensor(reinterpret_cast<PyTensor*>(o)->impl); }
/// The tensor in `o`, with its values.
inline Tensor unwrap(PyObject* o) {
    Tensor t = handle(o);
    if (t.has(kPending)) [[unlikely]]
        ops::settle(t);
    return t;
}
/// The tensor in `o` for the door: in defer mode it may stay pending, in map mode mapped.
inline Tensor operand(PyObject* o) {
    Tensor t = handle(o);
    if (t.has(kPending)) [[unlikely]]
        ops::settle_for_call(t);
    return t;
}
/// The same of the items of a list, whose handles were all taken first: to settle one may run others'
/// code, which may change the list.
inline void make_operands(Tensor* begin, Tensor* end) {
    for (Tensor* t = begin; t != end; ++t)
        if (t->defined() && t->has(kPending)) ops::settle_for_call(*t);
}
/// Tells who records calls, if somebody does, that values are read (Note [Recorded]).
void note_read(PyObject* tensor);
/// Raises if somebody does.
void refuse_recorded(const char* who);
/// The tensor in `o` for reading its values, outside of the graph.
inline Tensor reading(PyObject* o) {
    Tensor t = handle(o);
    if (mode & kTraceMode) [[unlikely]]
        note_read(o);
    if (t.has(kPending)) [[unlikely]]
        return promise(t).peek(t);
    return t;
}
/// A new reference; None for an undefined tensor.
PyObject* wrap(Tensor t);
inline Object wrapped(Tensor t) { return Object::take(wrap(std::move(t))); }
/// The tensor in `o`, or TypeError naming `who`.
Tensor expect_tensor(PyObject* o, const char* who);
/// A dim of `t` in [0, ndim), or IndexError.
int check_dim(const char* who, int64_t dim, const Tensor& t);
/// A tuple of the results of a call: one tensor, or a (named) tuple.
PyObject* wrap_results(Call& c);
/// Lets Python's collector look through `tensor`: what the graph holds on behalf of its wrapper
/// alone (hooks, a custom function's ctx) may refer back to it.
void track_cycles(PyObject* tensor);
void init_tensor_type(PyObject* module);

// ---- dtypes, sizes, devices (types.cpp)

PyObject* dtype_object(DType t);  ///< borrowed
/// Accepts dtype objects and Python's float, int, bool; false if `o` is none of them.
bool to_dtype(PyObject* o, DType& out);
PyObject* size_object(DimSpan dims);  ///< new reference to a Size
PyObject* to_python(const Value& v);  ///< new reference
/// What a device= says of where new tensors lie (Note [On meta] in ops/call.h); None says nothing.
enum class Where : uint8_t { Unsaid, Cpu, Meta };
/// Raises as PyTorch's CPU build does for other devices (weft/base/device.py).
Where to_place(PyObject* device);
/// Raises what PyTorch raises where no accelerator pins memory.
void expect_unpinned(const std::string& who, bool pinned);
/// While it lives, new tensors lie there; a place that is unsaid changes nothing.
class PlaceScope {
public:
    explicit PlaceScope(Where place)
        : scope_((place == Where::Meta) * kMetaMode, (place == Where::Cpu) * kMetaMode) {}

private:
    ModeGuard scope_;
};
void init_types(PyObject* module);

// ---- conversion (convert.cpp)

bool is_number(PyObject* o);
/// Throws PythonError/Error. `who` names the function in errors.
int64_t to_int(PyObject* o, const char* who);
double to_double(PyObject* o, const char* who);
/// A number as a 0-d tensor that yields in promotion; `like` is the other operand's dtype.
Tensor number_tensor(PyObject* o, const Tensor* like);
/// The one element of `t` as a Python int.
PyObject* element_as_int(const Tensor& t);
/// A sequence of ints (or one int) as dims; false if `o` is neither.
bool to_dims(PyObject* o, Dims& out);
/// A new tensor with the values of nested sequences, numbers, arrays or tensors (weft.tensor).
Tensor tensor_from(PyObject* data, const DType* dtype);
/// Shares memory with anything that speaks the buffer protocol or __array_interface__.
Tensor tensor_sharing(PyObject* data, const char* who);
/// Whether a tensor's memory is all that it is: a class of which that does not hold, sparse and nested tensors
/// and those on meshes, says `_lends_memory = False`.
bool is_its_memory(PyObject* tensor);
void init_convert(PyObject* module);

// ---- calls (call.cpp)

void init_calls(PyObject* module);
void init_checked(PyObject* module);
/// Whether an exception is Python's own word for a value that nothing was expected of.
bool is_slip(PyObject* error);
/// After a function of the package failed with such words: what it was given, as TypeError, or as
/// IndexError where a size was asked for that is not there.
void tell_arguments(std::string_view who, PyObject* const* args, Py_ssize_t count);
/// "in who(float32[2, 3], int) at model.py:12, ...": what is told of a call that failed.
std::string call_text(std::string_view who, PyObject* const* args, Py_ssize_t count);
/// After a function of the package failed by itself: that, unless it is told of a call inside.
void tell_operands(std::string_view who, PyObject* const* args, Py_ssize_t count);
/// For last_graph (watch.cpp): a function of the package has failed; an error came of no call.
void note_failed_function(std::string_view name, PyObject* const* args, Py_ssize_t count);
/// Before an error leaves a function without a call: unless one inside has been told of, this is.
void tell_function(Error& error, std::string_view who, PyObject* const* args, Py_ssize_t count);
/// `guarded` of a method that is no op.
template <class F, class R = std::invoke_result_t<F>>
R guarded_method(std::string_view who, std::initializer_list<PyObject*> args, F&& f,
                 R on_error = R()) {
    return guarded(
        [&] {
            try {
                return f();
            } catch (Error& error) {
                tell_function(error, who, args.begin(), static_cast<Py_ssize_t>(args.size()));
                throw;
            }
        },
        on_error);
}
void forget_failed();
/// Runs `op` on a parsed Python call; used by number slots.
PyObject* call_binary(const Op& op, PyObject* a, PyObject* b);

// ---- the rest

Tensor get_item(const Tensor& t, PyObject* key);
void set_item(const Tensor& t, PyObject* key, PyObject* value);
/// Whether a code object is of the package's own files.
bool is_internal(PyObject* code);
void init_site(PyObject* module);
void init_frames(PyObject* module);
void init_autograd(PyObject* module);
void init_optim(PyObject* module);
void init_saved_hooks(PyObject* module);
void init_anomaly(PyObject* module);
void init_module_slots(PyObject* module);
void init_function(PyObject* module);
/// The engine of a weft.Generator; null for anything else.
kernels::Generator* to_generator(PyObject* o);
void init_random(PyObject* module);
void init_dlpack(PyObject* module);
void init_storage(PyObject* module);
void init_deferred(PyObject* module);
void init_mapped(PyObject* module);
void init_segments(PyObject* module);
void init_recorder(PyObject* module);
void init_programs(PyObject* module);
void init_guards(PyObject* module);
void init_fibers(PyObject* module);
void init_watch(PyObject* module);
void init_spans(PyObject* module);
/// Those among `items` that are tensors.
std::vector<Tensor> tensors_among(PyObject* const* items, Py_ssize_t count);
void init_alive(PyObject* module);
void init_locals(PyObject* module);
void init_statistics(PyObject* module);
PyObject* wrap_node(const Ref<Node>& node);  ///< new reference; None for null
Ref<Node> unwrap_node(PyObject* o, const char* who);
PyObject* node_attribute(const Ref<Node>& node, PyObject* name);  ///< of its wrapper; new reference

}  // namespace weft::python
