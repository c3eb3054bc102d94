/// Generators: the process's own, and those that programs make for `generator=`.
#include "ops/random.h"

#include <cstring>
#include <unordered_map>

#include "deferred/turn.h"
#include "ops/copy.h"
#include "python/recorder.h"
#include "python/type.h"

namespace weft::python {
namespace {

struct PyGenerator {
    PyObject_HEAD kernels::Generator* engine;
    bool owned;
};
PyTypeObject generator_type = blank_type();

kernels::Generator& engine_of(PyObject* self) {
    return *reinterpret_cast<PyGenerator*>(self)->engine;
}

/// Of the generators that live.
std::unordered_map<const kernels::Generator*, PyObject*>& objects() {
    static auto* const all = new std::unordered_map<const kernels::Generator*, PyObject*>;
    return *all;
}

PyObject* make_generator(PyTypeObject* type, kernels::Generator* engine, bool owned) {
    auto* g = reinterpret_cast<PyGenerator*>(checked(type->tp_alloc(type, 0)));
    g->engine = engine;
    g->owned = owned;
    if (owned) engine->maker = memory_maker;
    objects()[engine] = reinterpret_cast<PyObject*>(g);
    return reinterpret_cast<PyObject*>(g);
}

PyObject* generator_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
    static const char* names[] = {"device", nullptr};
    PyObject* device = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:Generator", const_cast<char**>(names),
                                     &device))
        return nullptr;
    return guarded([&] {
        WEFT_EXPECT(to_place(device) != Where::Meta, Runtime, "Generator", "the CPU",
                    "meta (Device type meta is not supported for torch.Generator() api.)");
        PyObject* made = make_generator(type, new kernels::Generator, true);
        note_beside("made", made, nullptr);
        return made;
    });
}
void generator_dealloc(PyObject* self) {
    auto* g = reinterpret_cast<PyGenerator*>(self);
    objects().erase(g->engine);
    if (g->owned) delete g->engine;
    Py_TYPE(self)->tp_free(self);
}

/// In autobatch, states are read and set in the order of the examples, as numbers are drawn.
void take_turn(const kernels::Generator& generator) {
    if (mode & kDeferMode) deferred::draw_in_turn(generator);
}

PyObject* manual_seed(PyObject* self, PyObject* seed) {
    return guarded([&] {
        take_turn(engine_of(self));
        Object n = Object::take(PyNumber_Index(seed));
        int overflow = 0;
        auto value =
            static_cast<unsigned long long>(PyLong_AsLongLongAndOverflow(n.get(), &overflow));
        if (overflow > 0) value = PyLong_AsUnsignedLongLong(n.get());
        if (overflow < 0 || PyErr_Occurred()) {
            PyErr_Clear();
            fail(ErrorKind::Value, "manual_seed", "a seed of 64 bits",
                 "one that overflows them (Overflow when unpacking long)");
        }
        engine_of(self).manual_seed(value);
        return Py_NewRef(self);
    });
}
PyObject* seed(PyObject* self, PyObject*) {
    return guarded([&] {
        take_turn(engine_of(self));
        uint64_t value = ops::entropy_seed();
        engine_of(self).manual_seed(value);
        return PyLong_FromUnsignedLongLong(value);
    });
}
PyObject* initial_seed(PyObject* self, PyObject*) {
    return guarded([&] {
        take_turn(engine_of(self));
        return PyLong_FromUnsignedLongLong(engine_of(self).initial_seed());
    });
}
constexpr DType kStateDType = DType::UInt8;

PyObject* get_state(PyObject* self, PyObject*) {
    return guarded([&] {
        take_turn(engine_of(self));
        auto state = engine_of(self).state();
        Tensor bytes = Tensor::empty(kStateDType, Dims{static_cast<int64_t>(state.size())});
        std::memcpy(bytes.bytes(), state.data(), state.size());
        return wrap(bytes);
    });
}
PyObject* set_state(PyObject* self, PyObject* o) {
    return guarded([&] {
        Tensor given = expect_tensor(o, "set_state");
        take_turn(engine_of(self));
        WEFT_EXPECT(
            given.dtype() == kStateDType, Type, "set_state", "a state",
            text("a tensor of ", name(given.dtype()), " (RNG state must be a torch.ByteTensor)"));
        Tensor state = ops::as_contiguous(given);
        auto count = static_cast<size_t>(state.numel());
        bool fits = engine_of(self).set_state({state.data<std::byte>(), count});
        WEFT_EXPECT(fits, Runtime, "set_state", "a state that get_state returned",
                    text("a tensor of shape ", to_string(given.shape()), " that is none"));
        return Py_NewRef(self);
    });
}
/// The same as Python bytes, for checkpoints: no tensor that memory statistics would count.
PyObject* get_bytes(PyObject* self, PyObject*) {
    return guarded([&] {
        take_turn(engine_of(self));
        auto state = engine_of(self).state();
        return PyBytes_FromStringAndSize(reinterpret_cast<const char*>(state.data()),
                                         static_cast<Py_ssize_t>(state.size()));
    });
}
PyObject* set_bytes(PyObject* self, PyObject* bytes) {
    return guarded([&] {
        char* data;
        Py_ssize_t size;
        checked(PyBytes_AsStringAndSize(bytes, &data, &size));
        take_turn(engine_of(self));
        bool fits = engine_of(self).set_state(
            {reinterpret_cast<const std::byte*>(data), static_cast<size_t>(size)});
        WEFT_EXPECT(fits, Runtime, "set_state", "the bytes of a state", text(size, " others"));
        return Py_NewRef(Py_None);
    });
}
PyObject* clone_state(PyObject* self, PyObject*) {
    return guarded([&] {
        take_turn(engine_of(self));
        return make_generator(Py_TYPE(self), new kernels::Generator(engine_of(self)), true);
    });
}
PyObject* get_device(PyObject*, void*) {
    return guarded(
        [] { return import_attr("weft.base.device", "device").call(py_str("cpu")).release(); });
}

/// A method that changes what is drawn, told to who records calls.
template <PyCFunction method, const char* const& name>
PyObject* told(PyObject* self, PyObject* argument) {
    return guarded([&] {
        note_beside("draws", self, nullptr);
        Object result = Object::take(method(self, argument));
        note_called(name, self, argument, result.get());
        return result.release();
    });
}
constexpr const char *k_manual_seed = "manual_seed", *k_seed = "seed", *k_get_state = "get_state",
                     *k_set_state = "set_state", *k_clone_state = "clone_state";

PyMethodDef generator_methods[] = {
    {"manual_seed", told<manual_seed, k_manual_seed>, METH_O,
     "Restarts it from a seed; returns the generator."},
    {"seed", told<seed, k_seed>, METH_NOARGS,
     "Restarts it from the system's randomness and returns the seed."},
    {"initial_seed", initial_seed, METH_NOARGS, "The seed it was last started from."},
    {"get_state", told<get_state, k_get_state>, METH_NOARGS,
     "Its state: [5056] int64, a byte of PyTorch's in each."},
    {"set_state", told<set_state, k_set_state>, METH_O,
     "Puts back what get_state gave; RuntimeError for anything else."},
    {"_get_bytes", get_bytes, METH_NOARGS, nullptr},
    {"_set_bytes", set_bytes, METH_O, nullptr},
    {"clone_state", told<clone_state, k_clone_state>, METH_NOARGS,
     "Another generator in the same state."},
    {}};
PyGetSetDef properties[] = {{"device", get_device, nullptr, "The CPU.", nullptr}, {}};

/// The seed of example `index`'s own stream: other ones for all examples of a call, as each step is a
/// bijection of 32 bits, of which the engine takes no more (the finalizer is MurmurHash3's).
uint32_t stream_seed(uint32_t seed, uint32_t index) {
    uint32_t h = seed + index * 0x9e3779b9U;
    h = (h ^ h >> 16) * 0x85ebca6bU;
    h = (h ^ h >> 13) * 0xc2b2ae35U;
    return h ^ h >> 16;
}

/// _with_stream(fn, seed, index, *args, **kwargs): `fn(*args, **kwargs)`, drawing from a generator of
/// its own that seed and index determine.
PyObject* with_stream(PyObject*, PyObject* args, PyObject* kwargs) {
    return guarded([&] {
        auto part = [&](Py_ssize_t i) {
            return static_cast<uint32_t>(to_int(PyTuple_GET_ITEM(args, i), "_with_stream"));
        };
        // On the heap: batches in it draw from it too, in fibers that run in place of its stack.
        auto own = std::make_unique<kernels::Generator>(stream_seed(part(1), part(2)));
        own->maker = memory_maker;
        Object rest = Object::take(PyTuple_GetSlice(args, 3, PyTuple_GET_SIZE(args)));
        ops::GeneratorScope draws(*own);
        return checked(PyObject_Call(PyTuple_GET_ITEM(args, 0), rest.get(), kwargs));
    });
}

PyMethodDef random_functions[] = {
    {"_with_stream", c_function(with_stream), METH_VARARGS | METH_KEYWORDS, nullptr}, {}};

}  // namespace

PyObject* object_of(const kernels::Generator& generator) {
    const auto found = objects().find(&generator);
    return found == objects().end() ? nullptr : found->second;
}

kernels::Generator* to_generator(PyObject* o) {
    return PyObject_TypeCheck(o, &generator_type) ? &engine_of(o) : nullptr;
}

void init_random(PyObject* module) {
    checked(PyModule_AddFunctions(module, random_functions));
    PyTypeObject& t = generator_type;
    t.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
    t.tp_new = generator_new;
    t.tp_dealloc = generator_dealloc;
    t.tp_methods = generator_methods;
    t.tp_getset = properties;
    t.tp_doc = "Generator(device='cpu')\n\nA source of random numbers for `generator=`: PyTorch's, "
               "bit for bit.\n\n"
               ">>> g = weft.Generator().manual_seed(0)\n>>> weft.rand(2, generator=g)\n"
               "tensor([0.4963, 0.7682])\n";
    add_type(module, t, "torch.Generator", sizeof(PyGenerator));
    Object own = Object::steal(make_generator(&t, &ops::default_generator(), false));
    add_object(module, "default_generator", own.get());
}

}  // namespace weft::python
