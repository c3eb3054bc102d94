/// Files of safetensors for Python, as libweft maps them (native/file.h).
#include "native/file.h"
#include "python/object.h"

namespace weft::python {
namespace {

/// _map_file(path): the tensors of a file, over the one mapping of it, and its metadata, both by name.
PyObject* map_file(PyObject*, PyObject* path) {
    PyObject* bytes;
    if (!PyUnicode_FSConverter(path, &bytes)) return nullptr;
    const Object named = Object::take(bytes);
    return guarded([&] {
        const auto file = std::make_shared<const native::File>(PyBytes_AS_STRING(named.get()));
        const native::File::Mapping mapping(file);
        const Object tensors = Object::take(PyDict_New()), metadata = Object::take(PyDict_New());
        for (const native::File::Entry& entry : file->entries())
            checked(PyDict_SetItem(tensors.get(), py_str(entry.name).get(),
                                   wrapped(mapping.tensor(entry)).get()));
        for (const auto& [key, text] : file->metadata())
            checked(PyDict_SetItem(metadata.get(), py_str(key).get(), py_str(text).get()));
        return PyTuple_Pack(2, tensors.get(), metadata.get());
    });
}

PyMethodDef files_functions[] = {
    {"_map_file", map_file, METH_O, "The tensors and metadata of a file."}, {}};

}  // namespace

void init_files(PyObject* module) { checked(PyModule_AddFunctions(module, files_functions)); }

}  // namespace weft::python
