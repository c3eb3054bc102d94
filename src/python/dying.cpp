/// See Note [Dying operands].
#include "python/interpreter.h"

#include <opcode.h>

#include <dlfcn.h>
#include <unwind.h>

#include <cstdlib>
#include <cstring>

#include "ops/reuse.h"
#include "python/dying.h"

namespace weft::python {
namespace {

#if PY_VERSION_HEX < 0x030c0000

bool wanted() {
    static const bool yes = [] {
        const char* wish = std::getenv("WEFT_REUSE");
        return !(wish && wish[0] == '0');
    }();
    return yes;
}

/// Whether the one reference that the caller holds is all there is to `o`, and it is large.
bool sole_owner(PyObject* o) {
    if (Py_REFCNT(o) != 1 || Py_TYPE(o) != &tensor_type) return false;
    const auto* tensor = reinterpret_cast<PyTensor*>(o);
    const TensorImpl* impl = tensor->impl;
    const Storage* storage = impl->storage.get();
    return storage && storage->bytes >= ops::reuse_bytes && !tensor->dict && !tensor->weakrefs &&
           impl->refs == 1 && !impl->slot && !(impl->flags & ~(kContiguous | kInference)) &&
           storage->refs == 1 && storage->block > 0 && !storage->watched && !storage->read_only &&
           wanted();
}

_PyInterpreterFrame* running_frame() {
    PyThreadState* state = _PyThreadState_UncheckedGet();
    return state && state->cframe ? state->cframe->current_frame : nullptr;
}

/// What a return address on the C stack belongs to.
enum class Code : uint8_t { Ours, Interpreter, Loop, Other };

Code classify(void* address) {
    static const auto base_of = [](void* inside) {
        Dl_info info;
        return dladdr(inside, &info) ? info.dli_fbase : nullptr;
    };
    static void* const ours = base_of(reinterpret_cast<void*>(&running_frame));
    static void* const python = base_of(reinterpret_cast<void*>(&PyNumber_Multiply));
    Dl_info info;
    if (!dladdr(address, &info)) return Code::Other;
    if (info.dli_fbase == ours) return Code::Ours;
    if (info.dli_fbase != python) return Code::Other;
    const bool loop = info.dli_sname && !std::strcmp(info.dli_sname, "_PyEval_EvalFrameDefault");
    return loop ? Code::Loop : Code::Interpreter;
}

/// `classify`, remembered: the callers of number slots are few places.
Code classified(void* address) {
    struct Known {
        void* address;
        Code code;
    };
    static Known known[64];
    Known& k = known[reinterpret_cast<uintptr_t>(address) / 4 % 64];
    if (k.address != address) k = {address, classify(address)};
    return k.code;
}

/// Whether the evaluation loop called this slot by PyNumber_X and binary_op1, and no one else. The
/// walk ends where that is decided: deeper frames of a fiber may be gone.
bool called_by_the_loop() {
    struct Walk {
        int between = 0;
        bool direct = false;
    } walk;
    const auto step = [](_Unwind_Context* context, void* to) {
        constexpr int dispatch = 2;
        auto& w = *static_cast<Walk*>(to);
        const Code code = classified(reinterpret_cast<void*>(_Unwind_GetIP(context)));
        w.direct = code == Code::Loop;
        const bool on = (code == Code::Ours && w.between == 0) ||
                        (code == Code::Interpreter && ++w.between <= dispatch);
        return on ? _URC_NO_REASON : _URC_END_OF_STACK;
    };
    _Unwind_Backtrace(step, &walk);
    return walk.direct;
}

bool at_operator(const _PyInterpreterFrame* f) {
    const int opcode = _Py_OPCODE(*f->prev_instr);
    return opcode == BINARY_OP || opcode == BINARY_OP_ADAPTIVE;
}

#endif

}  // namespace

#if PY_VERSION_HEX < 0x030c0000

int dying_argument(PyObject* callable, PyObject* const* args, Py_ssize_t count) {
    for (Py_ssize_t i = 0; i < count; ++i) {
        if (!sole_owner(args[i])) continue;
        _PyInterpreterFrame* f = running_frame();
        if (!f) return -1;
        PyObject** const base = f->localsplus + f->f_code->co_nlocalsplus;
        const bool on_stack = args > base && args + count <= base + f->f_code->co_stacksize;
        return on_stack && args[-1] == callable ? static_cast<int>(i) : -1;
    }
    return -1;
}

int dying_operand(PyObject* a, PyObject* b) {
    const int which = sole_owner(a) ? 0 : sole_owner(b) ? 1 : -1;
    if (which < 0) return -1;
    const _PyInterpreterFrame* f = running_frame();
    return f && at_operator(f) && called_by_the_loop() ? which : -1;
}

#else

int dying_argument(PyObject*, PyObject* const*, Py_ssize_t) { return -1; }
int dying_operand(PyObject*, PyObject*) { return -1; }

#endif

}  // namespace weft::python
