#include "python/dict_version.h"

#include <unordered_map>

namespace weft::python {

#if PY_VERSION_HEX < 0x030C0000

DictVersion::DictVersion(PyObject* dict)
    : dict_(Object::borrow(dict)), at_(&reinterpret_cast<PyDictObject*>(dict)->ma_version_tag) {}
DictVersion::~DictVersion() = default;

#else
namespace {

struct Watched {
    uint64_t version;  ///< no two states of any dictionaries share one
    size_t users = 0;
};
/// By dictionary; never destroyed, as dictionaries may die after our statics.
std::unordered_map<PyObject*, Watched>& watched = *new std::unordered_map<PyObject*, Watched>;
uint64_t last_version;

int changes(PyDict_WatchEvent, PyObject* dict, PyObject*, PyObject*) {
    if (auto it = watched.find(dict); it != watched.end()) it->second.version = ++last_version;
    return 0;
}

/// Of the one watcher; -1: there was no place.
int watcher() {
    static const int id = [] {
        const int made = PyDict_AddWatcher(changes);
        if (made < 0) PyErr_Clear();
        return made;
    }();
    return id;
}

#if PY_VERSION_HEX >= 0x030D0000
/// Makes a dictionary hold its values itself, if those of an object lie inside of the object: CPython 3.13
/// tells no watcher when it writes an attribute there. What one sees of the dictionary stays the same.
void move_values_in(PyObject* dict) {
    if (!reinterpret_cast<PyDictObject*>(dict)->ma_values) return;
    if (!PyDict_GET_SIZE(dict)) {  // a key that is no string has no place in the object
        Object key = py_int(0);
        checked(PyDict_SetItem(dict, key.get(), Py_None));
        checked(PyDict_DelItem(dict, key.get()));
        return;
    }
    Object last = Object::take(PyObject_CallMethod(dict, "popitem", nullptr));
    checked(PyDict_SetItem(dict, PyTuple_GET_ITEM(last.get(), 0), PyTuple_GET_ITEM(last.get(), 1)));
}
#else
void move_values_in(PyObject*) {}
#endif

}  // namespace

DictVersion::DictVersion(PyObject* dict) : dict_(Object::borrow(dict)) {
    if (watcher() < 0) return;
    move_values_in(dict);
    checked(PyDict_Watch(watcher(), dict));
    auto it = watched.try_emplace(dict, Watched{++last_version}).first;
    ++it->second.users;
    at_ = &it->second.version;
}

DictVersion::~DictVersion() {
    if (!at_) return;
    auto it = watched.find(dict_.get());
    if (--it->second.users) return;
    watched.erase(it);
    PyDict_Unwatch(watcher(), dict_.get());
}
#endif

}  // namespace weft::python
