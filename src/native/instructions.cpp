/// What the host does for each instruction. Reading guide: `evaluated` is one case for each verb; then binding.
#include <algorithm>

#include "autograd/autocast.h"
#include "native/host.h"
#include "native/tensors.h"

namespace weft::native {

using program::FlatInstr;
using program::Verb;

std::string called(Raw callee) {
    switch (callee.kind()) {
        case Kind::Function:
            return callee.lasting<Function>()->name + "()";
        case Kind::Builtin:
            return std::string(callee.lasting<Builtin>()->name) + "()";
        case Kind::Ops:
            return callee.lasting<Ops>()->name + "()";
        case Kind::Type:
            return std::string(callee.lasting<Type>()->name) + "()";
        default:
            return str_of(callee);
    }
}

namespace {

/// The end of a scope: the mode is what it was before.
void leave_mode(uint32_t before) {
    const bool ends_autocast = mode & kAutocastMode && !(before & kAutocastMode);
    mode = before;
    if (ends_autocast) forget_casts();
}

void expect_kind(Raw r, Kind kind, const char* what) {
    if (!r.is(kind))
        raise_as(types::TypeError, "[package] expected ", what, ", got ", type_name(r));
}

void extend(Raw list, Raw items) {
    expect_kind(list, Kind::List, "a list");
    if (!is_iterable(items))
        raise_as(types::TypeError, "Value after * must be an iterable, not ", type_name(items));
    for (Thing& item : all_of(items)) list.as<List>()->items.push_back(item.release());
}

void merge(Raw target, Raw mapping) {
    expect_kind(target, Kind::Dict, "a dict");
    if (!mapping.is(Kind::Dict))
        raise_as(types::TypeError, "'", type_name(mapping), "' object is not a mapping");
    for (const Dict::Entry& e : std::vector<Dict::Entry>(mapping.as<Dict>()->entries))
        if (e.key) target.as<Dict>()->set(e.key, e.value);
}

/// Keyword arguments of a call, which may not be given twice.
void insert(Raw target, Raw mapping, Raw callee) {
    expect_kind(target, Kind::Dict, "a dict");
    if (!mapping.is(Kind::Dict))
        raise_as(types::TypeError, called(callee), " argument after ** must be a mapping, not ",
                 type_name(mapping));
    for (const Dict::Entry& e : mapping.as<Dict>()->entries) {
        if (!e.key) continue;
        if (target.as<Dict>()->has(e.key))
            raise_as(types::TypeError, called(callee),
                     " got multiple values for keyword argument '", str_of(e.key), "'");
        target.as<Dict>()->set(e.key, e.value);
    }
}

Thing formatted(int32_t convert, Raw value, Raw spec) {
    expect_kind(spec, Kind::Text, "a text");
    if (convert == 0) return of_text(format_of(value, text_in(spec)));
    std::string shown = convert == 2 ? str_of(value) : repr_of(value);
    if (convert == 3) shown = ascii_of(shown);
    return of_text(format_of(of_text(std::move(shown)).get(), text_in(spec)));
}

Thing joined(const Raw* parts, int32_t n) {
    std::string out;
    for (int32_t k = 0; k < n; ++k) {
        expect_kind(parts[k], Kind::Text, "a text");
        out += text_in(parts[k]);
    }
    return of_text(std::move(out));
}

Thing list_from(const Raw* items, int32_t n) {
    Thing out = new_list();
    auto& to = out.as<List>()->items;
    to.reserve(static_cast<size_t>(n));
    for (int32_t k = 0; k < n; ++k) {
        items[k].hold();
        to.push_back(items[k]);
    }
    return out;
}

Thing tuple_from(const Raw* items, int64_t n) {
    Thing out = new_tuple(n);
    for (int64_t k = 0; k < n; ++k) {
        items[k].hold();
        out.as<Tuple>()->items()[k] = items[k];
    }
    return out;
}

/// An exception, or one made of a class of them.
Thing instance_of(Raw what, const char* otherwise) {
    if (what.is(Kind::Error)) return Thing::borrow(what);
    if (!what.is(Kind::Type) || what.lasting<Type>()->kind != Kind::Error)
        raise_as(types::TypeError, otherwise);
    return make_error(*what.lasting<Type>(), {});
}

[[noreturn]] void no_attribute(Raw of, const std::string& name) {
    raise_as(types::AttributeError, "'", type_name(of), "' object has no attribute '", name, "'");
}

}  // namespace

void unbound_name(const std::string& name, bool outer) {
    if (outer)
        raise_as(types::NameError, "cannot access free variable '", name,
                 "' where it is not associated with a value in enclosing scope");
    raise_as(types::UnboundLocalError, "cannot access local variable '", name,
             "' where it is not associated with a value");
}

void Host::raise_from(Raw what, Raw cause, bool has_cause) {
    Thing error = instance_of(what, "exceptions must derive from BaseException");
    if (has_cause) {
        Thing of = cause.is_none()
                       ? Thing()
                       : instance_of(cause, "exception causes must derive from BaseException");
        auto* e = error.as<Error>();
        const Raw old = std::exchange(e->cause, of.release());
        e->has_cause = true;
        if (old) old.drop();
    }
    throw Raised{std::move(error)};
}

bool Host::matches(Raw kinds) {
    const Raw one[] = {kinds};
    const Items all = kinds.is(Kind::Tuple) ? items_in(kinds) : Items{one, 1};
    for (Raw kind : all)
        if (!kind.is(Kind::Type) || kind.lasting<Type>()->kind != Kind::Error)
            raise_as(types::TypeError,
                     "catching classes that do not inherit from BaseException is not allowed");
    if (!handled_) return false;
    for (Raw kind : all)
        if (is_subtype(handled_.as<Error>()->type, kind.lasting<Type>())) return true;
    return false;
}

Thing Host::attribute(Raw of, const std::string& name, Remembered* memory) const {
    if (const Builtin* method = method_named(of, name))
        return make_thing<Method>(of, nullptr, method);
    switch (of.kind()) {
        case Kind::Tensor:
            if (Thing found = tensor_attribute(of, name)) return found;
            if (const Ops* ops = memory ? memory->method_called(context_.package(), name)
                                        : context_.package().ops("Tensor." + name))
                return make_thing<Method>(of, ops, nullptr);
            break;
        case Kind::Record:
            if (const Raw found = of.as<Record>()->find(name)) return Thing::borrow(found);
            break;
        case Kind::Tuple:
            if (const Class* c = of.as<Tuple>()->of) {
                const int64_t k = c->field(name);
                if (k >= 0 && k < of.as<Tuple>()->size)
                    return Thing::borrow(of.as<Tuple>()->items()[k]);
            }
            break;
        case Kind::Slice: {
            const auto* s = of.as<Slice>();
            if (name == "start") return Thing::borrow(s->start);
            if (name == "stop") return Thing::borrow(s->stop);
            if (name == "step") return Thing::borrow(s->step);
            break;
        }
        case Kind::Range: {
            const auto* r = of.as<Range>();
            if (name == "start") return of_int(r->start);
            if (name == "stop") return of_int(r->stop);
            if (name == "step") return of_int(r->step);
            break;
        }
        case Kind::Error:
            if (name == "args") return Thing::borrow(of.as<Error>()->args);
            if (name == "__cause__")
                return of.as<Error>()->cause ? Thing::borrow(of.as<Error>()->cause) : none();
            break;
        case Kind::Type:
            if (name == "__name__" || name == "__qualname__")
                return of_text(of.lasting<Type>()->name);
            raise_as(types::AttributeError, "type object '", of.lasting<Type>()->name,
                     "' has no attribute '", name, "'");
        case Kind::Class:
            if (name == "__name__") return of_text(of.lasting<Class>()->short_name());
            if (name == "__qualname__") return of_text(of.lasting<Class>()->shown_name());
            raise_as(types::AttributeError, "type object '", of.lasting<Class>()->name,
                     "' has no attribute '", name, "'");
        case Kind::DType:
            if (name == "is_floating_point") return of_bool(is_floating(dtype_in(of)));
            if (name == "is_complex") return of_bool(is_complex(dtype_in(of)));
            if (name == "itemsize") return of_int(item_size(dtype_in(of)));
            if (name == "is_signed")
                return of_bool(dtype_in(of) != DType::Bool && !is_unsigned(dtype_in(of)));
            break;
        case Kind::Int:
        case Kind::Bool:
        case Kind::Float:
        case Kind::Complex:
            if (name == "real")
                return of.is(Kind::Complex) ? of_double(double_in(of)) : unary(1, of);
            if (name == "imag") {
                if (of.is(Kind::Complex)) return of_double(of.as<Number>()->imag);
                return of.is(Kind::Float) ? of_double(0) : of_int(0);
            }
            break;
        default:
            break;
    }
    no_attribute(of, name);
}

void Host::set_attribute(Raw of, const std::string& name, Raw value) {
    if (of.is(Kind::Record)) return of.as<Record>()->set(name, value);
    if (of.is_tensor() && tensor_set_attribute(of, name, value)) return;
    if (of.is(Kind::Tuple) && of.as<Tuple>()->of && of.as<Tuple>()->of->field(name) >= 0)
        raise_as(types::AttributeError, "can't set attribute");
    no_attribute(of, name);
}

Thing Host::evaluated(Frame* frame, const FlatInstr& i, const Raw* a) {
    auto name = [&]() -> const std::string& {
        return frame->function->names[static_cast<size_t>(i.attr)][0];
    };
    switch (i.verb) {
        case Verb::Attr:
        case Verb::Lookup:
            return attribute(a[0], name(), memory_of(frame, &i));
        case Verb::SetAttr:
            return set_attribute(a[0], name(), a[1]), none();
        case Verb::DelAttr:
            no_attribute(a[0], name());
        case Verb::Get:
            return get_item(a[0], a[1]);
        case Verb::SetGet:
            return set_item(a[0], a[1], a[2]), none();
        case Verb::DelGet:
            return del_item(a[0], a[1]), none();
        case Verb::Slice:
            return make_thing<Slice>(a[0], a[1], a[2]);
        case Verb::Binary:
            return binary(i.sub, a[0], a[1]);
        case Verb::Inplace:
            return inplace(i.sub, a[0], a[1]);
        case Verb::Unary:
            return unary(i.sub, a[0]);
        case Verb::Compare:
            return compare(i.sub, a[0], a[1]);
        case Verb::Tuple:
            return tuple_from(a, i.count);
        case Verb::List:
            return list_from(a, i.count);
        case Verb::Set: {
            Thing out = new_set();
            for (int32_t k = 0; k < i.count; ++k) out.as<Dict>()->set(a[k], Raw());
            return out;
        }
        case Verb::Dict: {
            Thing out = new_dict();
            for (int32_t k = 0; k < i.count; k += 2) out.as<Dict>()->set(a[k], a[k + 1]);
            return out;
        }
        case Verb::Extend:
            return extend(a[0], a[1]), none();
        case Verb::Update:
            expect_kind(a[0], Kind::Set, "a set");
            for (const Thing& item : all_of(a[1])) a[0].as<Dict>()->set(item.get(), Raw());
            return none();
        case Verb::Merge:
            return merge(a[0], a[1]), none();
        case Verb::Insert:
            return insert(a[0], a[1], a[2]), none();
        case Verb::Append:
            expect_kind(a[0], Kind::List, "a list");
            a[1].hold();
            a[0].as<List>()->items.push_back(a[1]);
            return none();
        case Verb::Add:
            expect_kind(a[0], Kind::Set, "a set");
            return a[0].as<Dict>()->set(a[1], Raw()), none();
        case Verb::Put:
            expect_kind(a[0], Kind::Dict, "a dict");
            return a[0].as<Dict>()->set(a[1], a[2]), none();
        case Verb::ToTuple:
            return tuple_of(all_of(a[0]));
        case Verb::Format:
            return formatted(i.sub, a[0], a[1]);
        case Verb::Join:
            return joined(a, i.count);
        case Verb::Iter:
            return iterate(a[0]);
        case Verb::Raise:
            raise_from(a[0], i.count > 1 ? a[1] : Raw(), i.count > 1);
            return none();
        case Verb::Reraise:
            if (!handled_) raise_text(types::RuntimeError, "No active exception to reraise");
            throw Raised{Thing::borrow(handled_)};
        case Verb::Match:
            return of_bool(matches(a[0]));
        case Verb::Fail: {
            std::vector<Thing> args;
            if (i.count) args.push_back(Thing::borrow(a[0]));
            throw Raised{make_error(types::AssertionError, std::move(args))};
        }
        case Verb::Exit:
            leave_mode(static_cast<uint32_t>(int_in(a[0])));
            return none();
        case Verb::ExitError:
            leave_mode(static_cast<uint32_t>(int_in(a[0])));
            return of_bool(false);
        default:
            raise_as(types::RuntimeError, "[package] expected a known instruction, got ",
                     program::kVerbNames[static_cast<size_t>(i.verb)]);
    }
}

Raw Host::evaluate(Frame* frame, const FlatInstr& i, const Raw* args) {
    try {
        return evaluated(frame, i, args).release();
    } catch (...) {
        failed();
        return Raw();
    }
}

int Host::truth(Raw value) {
    if (value.is(Kind::Bool)) return value.truth_of_bool();
    try {
        return native::truth(value);
    } catch (...) {
        failed();
        return -1;
    }
}

Raw Host::next(Raw iterator, bool& done) {
    try {
        Thing value = native::next(*iterator.as<Iterator>());
        done = !value;
        return value.release();
    } catch (...) {
        failed();
        return Raw();
    }
}

bool Host::enter(Frame* frame, const FlatInstr& i, Raw manager) {
    try {
        if (!manager.is(Kind::Mode))
            raise_as(types::TypeError, "'", type_name(manager),
                     "' object does not support the context manager protocol");
    } catch (...) {
        failed();
        return false;
    }
    const auto* scope = manager.lasting<Mode>();
    const uint32_t before = mode;
    mode = scope->changed(before);
    auto put = [&](int32_t r, Raw value) {
        const Raw old = std::exchange(frame->registers[r], value);
        if (old) old.drop();
    };
    put(i.target, Raw::small(before));
    put(i.out, Raw::none());
    return true;
}

bool Host::unpack(Frame* frame, const FlatInstr& i, Raw value) {
    const int32_t* outs = frame->code->numbers.data() + i.out;
    const auto n = static_cast<size_t>(i.target);
    try {
        if (!is_iterable(value))
            raise_as(types::TypeError, "cannot unpack non-iterable ", type_name(value), " object");
        std::vector<Thing> items;
        if (i.sub < 0 && !is_sequence(value)) {  // no more is taken than is wanted
            const Thing iterator = iterate(value);
            while (items.size() <= n) {
                items.push_back(native::next(*iterator.as<Iterator>()));
                if (items.back()) continue;
                items.pop_back();
                break;
            }
        } else {
            items = all_of(value);
        }
        if (i.sub < 0) {
            if (items.size() > n)
                raise_as(types::ValueError, "too many values to unpack (expected ", n, ")");
            if (items.size() < n)
                raise_as(types::ValueError, "not enough values to unpack (expected ", n, ", got ",
                         items.size(), ")");
        } else {
            const auto before = static_cast<size_t>(i.sub), after = static_cast<size_t>(i.names);
            if (items.size() < before + after)
                raise_as(types::ValueError, "not enough values to unpack (expected at least ",
                         before + after, ", got ", items.size(), ")");
            const auto last = items.end() - static_cast<std::ptrdiff_t>(after);
            const auto first = items.begin() + i.sub;
            std::vector<Thing> middle(std::make_move_iterator(first),
                                      std::make_move_iterator(last));
            const auto at = items.erase(first, last);
            items.insert(at, list_of(std::move(middle)));
        }
        for (size_t k = 0; k < n; ++k) {
            const Raw old = std::exchange(frame->registers[outs[k]], items[k].release());
            if (old) old.drop();
        }
        return true;
    } catch (...) {
        failed();
        return false;
    }
}

// ---- binding

namespace {

std::string listed(const std::vector<std::string>& names) {
    std::string out;
    for (size_t k = 0; k < names.size(); ++k) {
        if (k) out += k + 1 < names.size() ? ", " : names.size() > 2 ? ", and " : " and ";
        out += "'" + names[k] + "'";
    }
    return out;
}

[[noreturn]] void too_many(const Function& f, int64_t n, int64_t by_name) {
    int64_t optional = 0;
    for (const auto& [k, value] : f.defaults) optional += k < f.positional;
    const int64_t least = f.positional - optional;
    std::string takes =
        optional ? text("from ", least, " to ", f.positional) : std::to_string(f.positional);
    const char* many = f.positional == 1 && !optional ? "" : "s";
    std::string got = std::to_string(n);
    if (by_name)
        got += text(" positional argument", n == 1 ? "" : "s", " (and ", by_name,
                    " keyword-only argument", by_name == 1 ? "" : "s", ")");
    raise_as(types::TypeError, f.name, "() takes ", takes, " positional argument", many, " but ",
             got, n == 1 && !by_name ? " was given" : " were given");
}

void missing(const Function& f, const Raw* regs, int32_t from, int32_t to, const char* kind) {
    std::vector<std::string> names;
    for (int32_t k = from; k < to; ++k)
        if (!regs[k]) names.push_back(f.params[static_cast<size_t>(k)]);
    if (!names.empty())
        raise_as(types::TypeError, f.name, "() missing ", names.size(), " required ", kind,
                 " argument", names.size() > 1 ? "s" : "", ": ", listed(names));
}

}  // namespace

void Host::bind_others(Frame* frame, const Given& given) {
    const Function& f = *frame->function;
    Raw* const regs = frame->registers;
    const std::vector<Raw>& defaults = frame->state->defaults;
    const int32_t params = f.positional + f.keyword_only;
    const int64_t by_place = std::min<int64_t>(given.n, f.positional);
    auto put = [&](int32_t k, Raw value) {
        value.hold();
        regs[k] = value;
    };
    for (int64_t k = 0; k < by_place; ++k) put(static_cast<int32_t>(k), given.args[k]);
    int32_t last = params;
    if (f.has_args) regs[last++] = tuple_from(given.args + by_place, given.n - by_place).release();
    Dict* words = nullptr;
    if (f.has_kwargs) {
        regs[last] = new_dict().release();
        words = regs[last].as<Dict>();
    }
    int64_t by_name = 0;
    for (int64_t k = 0; k < given.words(); ++k) {
        const std::string& name = (*given.names)[static_cast<size_t>(k)];
        const Raw value = given.args[given.n + k];
        const auto end = f.params.begin() + params;
        const auto found = std::find(f.params.begin(), end, name);
        if (found != end) {
            const auto at = static_cast<int32_t>(found - f.params.begin());
            if (regs[at])
                raise_text(types::TypeError,
                           f.name + "() got multiple values for argument '" + name + "'");
            by_name += at >= f.positional;
            put(at, value);
        } else if (words) {
            words->set(of_text(name).get(), value);
        } else {
            raise_text(types::TypeError,
                       f.name + "() got an unexpected keyword argument '" + name + "'");
        }
    }
    if (given.n > f.positional && !f.has_args) too_many(f, given.n, by_name);
    for (int32_t k = 0; k < params; ++k)
        if (!regs[k] && defaults[static_cast<size_t>(k)]) put(k, defaults[static_cast<size_t>(k)]);
    missing(f, regs, 0, f.positional, "positional");
    missing(f, regs, f.positional, params, "keyword-only");
}

}  // namespace weft::native
