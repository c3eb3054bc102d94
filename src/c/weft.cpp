/// The functions of weft.h: handles, and no exception beyond them.
#include "c/weft.h"

#include <cstdlib>

#include "autograd/autocast.h"
#include "autograd/meta.h"
#include "base/parallel.h"
#include "c/context.h"
#include "c/errors.h"
#include "program/trace.h"

struct weft_program {
    std::shared_ptr<const weft::c::Program> shared;
};

namespace {

using namespace weft;

/// A handle is the Core itself.
c::Core* core_of(weft_context* context) { return reinterpret_cast<c::Core*>(context); }

/// Layers hang on the door when the first program is loaded. (Not by std::call_once: it reads a variable of
/// each thread in libstdc++, which a process that loaded that late can give us no place for.)
void install_layers() {
    [[maybe_unused]] static const bool done = [] {
        install();
        install_autocast();
        program::install();
        return true;
    }();
}

/// What is made beside a context and gone at the end has a heap for itself.
template <class Body>
int guarded(weft_error* error, Body body) noexcept {
    try {
        Heap heap;
        Heap::Use now(heap);
        try {
            body();
            return 0;
        } catch (...) {
            c::tell(error);
        }
    } catch (...) {
        c::fill(error, "MemoryError", {});
    }
    return 1;
}

}  // namespace

void weft_value_clear(weft_value* value) {
    if (value) c::clear(*value);
}

void weft_error_clear(weft_error* error) {
    if (!error) return;
    std::free(error->kind);
    std::free(error->message);
    std::free(error->trace);
    *error = {};
}

int weft_load(const char* path, weft_program** program, weft_error* error) {
    *program = nullptr;
    return guarded(error, [&] {
        WEFT_EXPECT(path, Value, "weft_load", "a path", "null");
        install_layers();
        auto loaded = std::make_unique<weft_program>();
        loaded->shared = std::make_shared<const c::Program>(path);
        *program = loaded.release();
    });
}

void weft_program_free(weft_program* program) { delete program; }

size_t weft_program_entries(const weft_program* program) {
    return program->shared->package->entries().size();
}

const char* weft_program_entry(const weft_program* program, size_t k) {
    const auto& entries = program->shared->package->entries();
    return k < entries.size() ? entries[k].first.c_str() : nullptr;
}

int weft_context_new(weft_program* program, weft_context** context, weft_error* error) {
    *context = nullptr;
    return guarded(
        error, [&] { *context = reinterpret_cast<weft_context*>(new c::Core(program->shared)); });
}

void weft_context_free(weft_context* context) {
    if (context) core_of(context)->let_go();
}

int weft_run(weft_context* context, const char* entry, const weft_value* args, size_t count,
             const weft_value* named, weft_value* result, weft_error* error) {
    *result = weft_none();
    return core_of(context)->run(entry, args, count, named, *result, error);
}

void weft_interrupt(weft_context* context) { core_of(context)->interrupt(); }

int weft_seed(weft_context* context, uint64_t seed, weft_error* error) {
    return core_of(context)->seed(seed, error);
}

void weft_set_threads(int count) { set_num_threads(count); }
int weft_threads(void) { return get_num_threads(); }
const char* weft_version(void) { return WEFT_VERSION; }
