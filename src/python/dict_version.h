/// Whether a dictionary is as it was: one number to compare.
///
/// Note [Versions of dictionaries]
/// CPython 3.11 gives every state of a dictionary a number that no other state of any dictionary ever has
/// (PEP 509), in the dictionary itself: reading it costs a load, and nothing where nobody asks. Later
/// versions deprecate the number (PEP 699); there we have ourselves told of changes (`PyDict_Watch`) and
/// count. All the guards of the process share one watcher, and those of one dictionary its number: a
/// write to a dictionary that somebody watches costs one look into a table. The number changes *before*
/// the dictionary does, and no code of users runs in between. CPython 3.13 tells nobody when it writes an
/// attribute of an object whose values lie inside of the object: what is watched gets its values back.
#pragma once
#include "python/object.h"

namespace weft::python {

/// The version of a dictionary, which it owns.
class DictVersion {
public:
    DictVersion() = default;
    explicit DictVersion(PyObject* dict);
    DictVersion(DictVersion&& o) noexcept
        : dict_(std::move(o.dict_)), at_(std::exchange(o.at_, nullptr)) {}
    DictVersion& operator=(DictVersion o) noexcept {
        std::swap(dict_, o.dict_);
        std::swap(at_, o.at_);
        return *this;
    }
    ~DictVersion();
    PyObject* dict() const { return dict_.get(); }
    /// Where the number is; null where other watchers have left no place for ours.
    const uint64_t* at() const { return at_; }

private:
    Object dict_;
    const uint64_t* at_ = nullptr;
};

}  // namespace weft::python
