/// Types as programs see them, and exceptions.
///
/// Code of this layer throws: `Raised` with an exception of the program's, or weft::Error as all layers do. The host
/// alone catches (host.cpp).
#pragma once
#include "base/error.h"
#include "native/value.h"

namespace weft::native {

struct Type {
    const char* name;
    const Type* base;            ///< of exceptions
    Kind kind = Kind::Error;     ///< of its values
    const char* full = nullptr;  ///< where messages have another name
    const char* shown() const { return full ? full : name; }
};

#define WEFT_NATIVE_ERRORS(X)                                                                      \
    X(Exception, BaseException)                                                                    \
    X(ArithmeticError, Exception)                                                                  \
    X(FloatingPointError, ArithmeticError)                                                         \
    X(OverflowError, ArithmeticError)                                                              \
    X(ZeroDivisionError, ArithmeticError)                                                          \
    X(AssertionError, Exception)                                                                   \
    X(AttributeError, Exception)                                                                   \
    X(FrozenInstanceError, AttributeError)                                                         \
    X(LookupError, Exception)                                                                      \
    X(IndexError, LookupError)                                                                     \
    X(KeyError, LookupError)                                                                       \
    X(MemoryError, Exception)                                                                      \
    X(NameError, Exception)                                                                        \
    X(UnboundLocalError, NameError)                                                                \
    X(OSError, Exception)                                                                          \
    X(RuntimeError, Exception)                                                                     \
    X(NotImplementedError, RuntimeError)                                                           \
    X(RecursionError, RuntimeError)                                                                \
    X(LinAlgError, RuntimeError)                                                                   \
    X(StopIteration, Exception)                                                                    \
    X(TypeError, Exception)                                                                        \
    X(ValueError, Exception)                                                                       \
    X(KeyboardInterrupt, BaseException)

namespace types {
inline constexpr Type BaseException{"BaseException", nullptr};
#define X(name, base) inline constexpr Type name{#name, &base};
WEFT_NATIVE_ERRORS(X)
#undef X
// Others than the first of their kind.
inline constexpr Type FrozenSet{"frozenset", nullptr, Kind::Set};
inline constexpr Type Size{"Size", nullptr, Kind::Tuple, "torch.Size"};
inline constexpr Type Bytes{"bytes", nullptr, Kind::Tuple};
/// What is not of this layer, and passes through programs.
inline constexpr Type Other{"BaseException", nullptr};
}  // namespace types

/// A type by its name; null if there is none.
const Type* type_named(std::string_view name);
bool is_subtype(const Type* type, const Type* of);
/// The type of a value; null: it has a class (Record, named tuples).
const Type* type_of(Raw value);
/// The name of its type, as messages have it.
std::string type_name(Raw value);
bool is_instance(Raw value, Raw of);

struct Raised {
    Thing error;
};

Thing make_error(const Type& type, std::vector<Thing> args);
[[noreturn]] void raise_text(const Type& type, std::string message);
template <class... Parts>
[[noreturn]] void raise_as(const Type& type, const Parts&... parts) {
    raise_text(type, text(parts...));
}
/// KeyError(key).
[[noreturn]] void no_key(Raw key);
/// Keeps an exception in flight that is none of weft's: the binding's hold what Python raised.
inline std::exception_ptr (*keep_other)() = std::current_exception;
/// The exception in flight as one of programs. Call in a catch block.
Thing caught_error();
/// What str() of an exception gives.
std::string message_of(const Error& error);

}  // namespace weft::native
