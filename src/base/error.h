/// One grammar for every error: `[who] expected E, got G. Hint: H`.
///
/// Layers below Python throw `weft::Error`; `src/python/errors.cpp` alone maps its kind to the
/// Python exception type that PyTorch raises.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace weft {

enum class ErrorKind : uint8_t {
    Runtime,
    Value,
    Type,
    Index,
    NotImplemented,
    Memory,
    Overflow,
    LinAlg,  ///< a matrix that has no inverse or factor: a Runtime error
};

class Error : public std::runtime_error {
public:
    Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind(kind) {}
    /// `error` with more to say.
    Error(const Error& error, const std::string& more)
        : std::runtime_error(error.what() + more), kind(error.kind), context(error.context),
          told(error.told) {}
    ErrorKind kind;
    /// The calls that failed, the innermost first, with their operands: a line each.
    std::string context;
    const void* told = nullptr;  ///< the op of the last of them
};

/// A value, and what streams it.
struct Streamed {
    const void* value;
    void (*put)(std::ostream&, const void*);

    template <class T>
    static Streamed of(const T& v) {
        return {std::addressof(v),
                [](std::ostream& out, const void* value) { out << *static_cast<const T*>(value); }};
    }
    template <size_t N>
    static Streamed of(const char (&v)[N]) {  // one function for all lengths
        return {v, [](std::ostream& out, const void* value) {
                    out << static_cast<const char*>(value);
                }};
    }
};
std::string concatenated(std::initializer_list<Streamed> parts);

/// Concatenates anything that streams: `text("dim ", d, " of ", n)`.
///
/// A stream in each of its instances made up 190 kB of libweft.
template <class... Args>
std::string text(const Args&... args) {
    return concatenated({Streamed::of(args)...});
}

[[noreturn]] inline void fail(ErrorKind kind, std::string_view who, std::string_view expected,
                              std::string_view got, std::string_view hint = {}) {
    std::string message = text("[", who, "] expected ", expected, ", got ", got);
    if (!hint.empty()) message += text(". Hint: ", hint);
    throw Error(kind, message);
}

}  // namespace weft

/// WEFT_EXPECT(condition, kind, who, expected, got[, hint]): the strings are built on failure only.
#define WEFT_EXPECT(condition, kind, ...)                                                          \
    do {                                                                                           \
        if (!(condition)) [[unlikely]]                                                             \
            ::weft::fail(::weft::ErrorKind::kind, __VA_ARGS__);                                    \
    } while (0)
