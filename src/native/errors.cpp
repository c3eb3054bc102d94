#include "native/errors.h"

#include <algorithm>
#include <new>

#include "native/operators.h"
#include "native/package.h"

namespace weft::native {
namespace {

constexpr Type kTypes[] = {
    {"NoneType", nullptr, Kind::None},
    {"bool", nullptr, Kind::Bool},
    {"int", nullptr, Kind::Int},
    {"float", nullptr, Kind::Float},
    {"complex", nullptr, Kind::Complex},
    {"str", nullptr, Kind::Text},
    {"tuple", nullptr, Kind::Tuple},
    {"list", nullptr, Kind::List},
    {"dict", nullptr, Kind::Dict},
    {"set", nullptr, Kind::Set},
    {"dict_keys", nullptr, Kind::View},
    {"dict_values", nullptr, Kind::View},
    {"dict_items", nullptr, Kind::View},
    {"slice", nullptr, Kind::Slice},
    {"range", nullptr, Kind::Range},
    {"iterator", nullptr, Kind::Iterator},
    {"Tensor", nullptr, Kind::Tensor, "torch.Tensor"},
    {"dtype", nullptr, Kind::DType, "torch.dtype"},
    {"device", nullptr, Kind::Device, "torch.device"},
    {"ellipsis", nullptr, Kind::Ellipsis},
    {"function", nullptr, Kind::Function},
    {"builtin_function_or_method", nullptr, Kind::Builtin},
    {"builtin_function_or_method", nullptr, Kind::Method},
    {"weft.Function", nullptr, Kind::Ops},
    {"type", nullptr, Kind::Type},
    {"type", nullptr, Kind::Class},
    {"no_grad", nullptr, Kind::Mode},
    {"value", nullptr, Kind::Live},
};

constexpr const Type* kOthers[] = {&types::FrozenSet, &types::Size, &types::Bytes,
                                   &types::BaseException,
#define X(name, base) &types::name,
                                   WEFT_NATIVE_ERRORS(X)
#undef X
};

}  // namespace

const Type* type_named(std::string_view name) {
    for (const Type& t : kTypes)
        if (name == t.name) return &t;
    for (const Type* t : kOthers)
        if (name == t->name) return t;
    return nullptr;
}

bool is_subtype(const Type* type, const Type* of) {
    for (; type; type = type->base)
        if (type == of) return true;
    return false;
}

const Type* type_of(Raw value) {
    const Kind kind = value.kind();
    if (kind == Kind::Error) return value.as<Error>()->type;
    if (kind == Kind::Record) return nullptr;
    if (kind == Kind::Set && value.as<Dict>()->frozen) return &types::FrozenSet;
    if (const Class* of = kind == Kind::Tuple ? value.as<Tuple>()->of : nullptr)
        return of == &size_class() ? &types::Size : of == &bytes_class() ? &types::Bytes : nullptr;
    const Type* found = std::ranges::find(kTypes, kind, &Type::kind);
    if (kind == Kind::View) found += static_cast<int>(value.as<View>()->of);
    return found == std::end(kTypes) ? nullptr : found;
}

std::string type_name(Raw value) {
    if (const Type* type = type_of(value)) return type->shown();
    return (value.is(Kind::Record) ? value.as<Record>()->of : value.as<Tuple>()->of)->name;
}

bool is_instance(Raw value, Raw of) {
    if (of.is(Kind::Tuple)) {
        for (Raw one : items_in(of))
            if (is_instance(value, one)) return true;
        return false;
    }
    if (of.is(Kind::Class)) {
        const Class* is = value.is(Kind::Tuple)    ? value.as<Tuple>()->of
                          : value.is(Kind::Record) ? value.as<Record>()->of
                                                   : nullptr;
        return is && is->name == of.lasting<Class>()->name;
    }
    if (!of.is(Kind::Type))
        raise_as(types::TypeError,
                 "isinstance() arg 2 must be a type, a tuple of types, or a union");
    const Type* wanted = of.lasting<Type>();
    if (value.is(Kind::Error)) return is_subtype(value.as<Error>()->type, wanted);
    if (value.is(Kind::Bool) && wanted->kind == Kind::Int) return true;
    const Kind kind = value.kind();
    if (wanted->kind != kind || kind == Kind::Error) return false;
    if (kind != Kind::Tuple && kind != Kind::Set && kind != Kind::View) return true;
    const Type* type = type_of(value);
    if (type == wanted) return true;
    // sizes and named tuples are tuples
    return (!type || type == &types::Size) && wanted != &types::Size && wanted != &types::Bytes;
}

Thing make_error(const Type& type, std::vector<Thing> args) {
    return make_thing<Error>(&type, tuple_of(std::move(args)).release());
}

void no_key(Raw key) {
    std::vector<Thing> args;
    args.push_back(Thing::borrow(key));
    throw Raised{make_error(types::KeyError, std::move(args))};
}

void raise_text(const Type& type, std::string message) {
    std::vector<Thing> args;
    args.push_back(of_text(std::move(message)));
    throw Raised{make_error(type, std::move(args))};
}

Thing caught_error() {
    auto of = [](const Type& type, std::string message) {
        std::vector<Thing> args;
        args.push_back(of_text(std::move(message)));
        return make_error(type, std::move(args));
    };
    try {
        throw;
    } catch (Raised& raised) {
        return std::move(raised.error);
    } catch (const weft::Error& e) {
        const Type* const kinds[] = {&types::RuntimeError,        &types::ValueError,
                                     &types::TypeError,           &types::IndexError,
                                     &types::NotImplementedError, &types::MemoryError,
                                     &types::OverflowError,       &types::LinAlgError};
        Thing error = of(*kinds[static_cast<size_t>(e.kind)], e.what());
        error.as<Error>()->told = e.context;
        return error;
    } catch (const std::bad_alloc&) {
        return of(types::MemoryError, "");
    } catch (const std::length_error&) {
        return of(types::MemoryError, "");
    } catch (const std::exception& e) {
        return of(types::RuntimeError, e.what());
    } catch (...) {
        const std::exception_ptr kept = keep_other();
        Thing error = make_error(types::Other, {});
        error.as<Error>()->other = kept;
        return error;
    }
}

std::string message_of(const Error& error) {
    const Items args = items_in(error.args);
    if (args.size == 0) return "";
    if (args.size > 1) return repr_of(error.args);
    return error.type == &types::KeyError ? repr_of(args[0]) : str_of(args[0]);
}

}  // namespace weft::native
