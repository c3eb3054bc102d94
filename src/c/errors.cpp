#include "c/errors.h"

#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "native/errors.h"
#include "native/package.h"

namespace weft::c {
namespace {

char* copied(const std::string& text) {
    char* out = static_cast<char*>(std::malloc(text.size() + 1));
    if (out) std::memcpy(out, text.c_str(), text.size() + 1);
    return out;
}

/// As Python prints it, outermost first.
std::string trace_of(const native::Error& error) {
    std::string out;
    for (auto at = error.lines.rbegin(); at != error.lines.rend(); ++at)
        out += text("  File \"", at->function->file, "\", line ", at->line, ", in ",
                    at->function->name, "\n");
    return out;
}

}  // namespace

void fill(weft_error* error, const char* kind, const std::string& message,
          const std::string& trace) noexcept {
    if (error) *error = {copied(kind), copied(message), copied(trace)};
}

void tell(weft_error* error) noexcept {
    if (!error) return;
    try {
        const native::Thing caught = native::caught_error();
        const auto& e = *caught.as<native::Error>();
        std::string trace = trace_of(e);
        if (!e.told.empty()) trace += e.told + "\n";
        fill(error, e.type->name, native::message_of(e), trace);
    } catch (...) {  // no memory to say more
        fill(error, "MemoryError", {});
    }
}

}  // namespace weft::c
