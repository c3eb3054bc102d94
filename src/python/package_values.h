/// Values between Python and the programs of a package (native/value.h): those that a call takes, its result, its error.
#pragma once
#include <map>
#include <memory>

#include "native/host.h"
#include "python/object.h"

namespace weft::python {

/// What a `_C._Package` holds.
struct PackageState {
    std::unique_ptr<native::Context> context;
    /// Python's classes of records and named tuples that came in, or were made for those that go out.
    std::map<const native::Class*, Object> classes;
};

/// The tensor in `o`. What a program has is memory with strides: of a tensor that is more, or no memory at
/// all, it would read what the core has in its place. Throws weft::Error (Type), told of `who`.
Tensor plain_tensor(PyObject* o, std::string_view who);

/// Values of one call on their way in: what is one object stays one. Throws a TypeError for what programs do not
/// know, an OverflowError for ints beyond 64 bits, a RecursionError for values nested too deep.
class Incoming {
public:
    explicit Incoming(PackageState& state) : state_(state) {}
    native::Thing operator()(PyObject* o);

private:
    std::vector<native::Thing> items(PyObject* sequence);
    /// Of a list or dict, which may hold itself.
    native::Thing container(PyObject* o);
    native::Thing other(PyObject* o);
    const native::Class& class_for(PyObject* o, std::vector<std::string> fields, bool is_tuple);
    native::Thing named_tuple(PyObject* o);
    /// An object by its attributes.
    native::Thing record(PyObject* o);

    PackageState& state_;
    std::map<PyObject*, native::Thing> made_;
    int depth_ = 0;
};

/// Values of one call on their way out.
class Outgoing {
public:
    explicit Outgoing(PackageState& state) : state_(state) {}
    Object operator()(native::Raw r);
    /// Of the items of a tuple or list, whatever its class.
    Object tuple(native::Raw r);

private:
    Object other(native::Raw r);
    Object list(native::Raw r);
    Object dict(native::Raw r);
    /// Of the class that came in; else one that is made once.
    template <class F>
    const Object& class_for(const native::Class& of, F&& make) {
        Object& known = state_.classes[&of];
        if (!known) known = make();
        return known;
    }
    Object named_tuple(native::Raw r);
    Object record(native::Raw r);

    PackageState& state_;
    std::map<uint64_t, Object> made_;
    int depth_ = 0;
};

/// Sets the exception with which a run ended, with the lines of the package in its traceback.
void set_package_error(PackageState& state, const native::Error& error);

}  // namespace weft::python
