/// Reading guide: what values are (`use`, `told`), then one case for each instruction. Calls are in
/// trace_calls.cpp, the beginning and the end in trace_end.cpp.
#include "native/trace.h"

#include <algorithm>

#include "native/package.h"
#include "native/tensors.h"
#include "program/record.h"

namespace weft::native {

using program::FlatInstr;
using program::Refused;
using program::Verb;

namespace {

bool is_container(Raw r) {
    const Kind k = r.kind();
    return (k == Kind::Tuple && !is_value(r)) || k == Kind::List || k == Kind::Dict ||
           k == Kind::Set;
}
bool is_traced(Raw r) { return r.is_tensor() && program::is_traced(r.tensor()); }

}  // namespace

TraceHost::~TraceHost() {
    while (!open_.empty()) {
        Host::free(open_.back());
        open_.pop_back();
    }
}

// ---- what values are

Raw TraceHost::live(Raw actual, Source source) {
    made_->sources.push_back(source);
    lives_.push_back({actual, static_cast<int32_t>(made_->sources.size()) - 1});
    return Raw::lasting(Kind::Live, &lives_.back());
}

Raw TraceHost::use(Raw r) {
    r = use_or_keep(r);
    if (is_live(r) && !live_of(r).actual.is(Kind::Tuple) && !live_of(r).actual.is(Kind::Record))
        throw Refused{"an object of the caller's"};
    return r;
}

Raw TraceHost::use_whole(Raw r) {
    r = use(r);
    if (is_live(r)) throw Refused{"a tuple of the caller's"};
    return r;
}

/// The first condition on a value is the one that counts.
void TraceHost::ask(Live& live, Condition condition) {
    condition.source = live.source;
    if (!std::exchange(live.is_used, true)) made_->conditions.push_back(std::move(condition));
}

/// What stands for a tensor from outside: one for each, wherever it was met.
Raw TraceHost::input_of(Raw r, int32_t source) {
    using Ask = Condition::Ask;
    if (const auto known = inputs_.find(r.bits()); known != inputs_.end()) {
        const int32_t first = actual_.at(known->second.bits()).source;
        if (const int32_t of = std::max(source, first); of >= 0)
            made_->conditions.push_back({Ask::Same, of, Kind::None, std::min(source, first),
                                         nullptr,
                                         source < 0 || first < 0 ? Thing::borrow(r) : Thing()});
        return known->second;
    }
    const Tensor t = r.tensor();
    if (t.has(kPending)) throw Refused{"a tensor that waits"};
    const Raw traced = keep(Thing(tracer_->input(t, program::wants_grad(t))));
    made_->inputs.push_back({source, source < 0 ? Thing::borrow(r) : Thing()});
    actual_.emplace(traced.bits(), InputOf{r, source});
    inputs_.emplace(keep(Thing::borrow(r)).bits(), traced);
    return traced;
}

Raw TraceHost::use_or_keep(Raw r) {
    if (!is_live(r)) return r;
    Live& l = live_of(r);
    const Raw actual = l.actual;
    using Ask = Condition::Ask;
    if (l.traced) return l.traced;
    if (actual.is_tensor()) {
        ask(l, {Ask::Tensor, 0});
        return l.traced = input_of(actual, l.source);
    }
    if (is_value(actual) || is_fixed(actual)) {
        const Source& s = made_->sources[static_cast<size_t>(l.source)];
        if (s.parent < 0 && std::ranges::find(varying_, s) != varying_.end())
            throw Refused{"a number that varies"};
        ask(l, {Ask::Equal, 0, Kind::None, 0, nullptr, Thing::borrow(actual)});
        return actual;
    }
    if (actual.is(Kind::Tuple))
        ask(l, {Ask::Tuple, 0, Kind::Tuple, actual.as<Tuple>()->size, actual.as<Tuple>()->of, {}});
    else if (actual.is(Kind::Record))
        ask(l, {Ask::Kind, 0, Kind::Record, 0, actual.as<Record>()->of, {}});
    return r;
}

Raw TraceHost::item_of(Raw r, int64_t k) {
    const Live& l = live_of(r);
    const auto item = static_cast<int32_t>(k);
    const Raw actual = l.actual.is(Kind::Tuple)
                           ? l.actual.as<Tuple>()->items()[k]
                           : l.actual.as<Record>()->fields[static_cast<size_t>(k)];
    if (!actual) throw Refused{"an attribute that is not set"};
    return live(actual, {-1, l.source, nullptr, item});
}

/// A tuple of what is live in a live one.
Thing TraceHost::items_of(Raw r) {
    const int64_t n = live_of(r).actual.as<Tuple>()->size;
    Thing out = new_tuple(n, live_of(r).actual.as<Tuple>()->of);
    for (int64_t k = 0; k < n; ++k) out.as<Tuple>()->items()[k] = item_of(r, k);
    return own(std::move(out));
}

Raw TraceHost::told(Raw r) {
    const bool tuple = r.is(Kind::Tuple) && !is_value(r);
    if (!tuple && (!r.is_tensor() || is_traced(r))) return r;
    if (is_own(r)) return r;
    const auto known = told_.find(r.bits());
    if (known != told_.end()) return known->second;
    Raw out = r;
    if (r.is_tensor()) {
        out = input_of(r, -1);
    } else {
        const Items items = items_in(r);
        std::vector<Thing> parts;
        bool any = false;
        for (Raw item : items) {
            parts.push_back(Thing::borrow(told(item)));
            any |= parts.back().get() != item;
        }
        if (any) out = keep(own(tuple_of(std::move(parts), r.as<Tuple>()->of)));
    }
    keep(Thing::borrow(r));
    told_.emplace(r.bits(), out);
    return out;
}

Thing TraceHost::own(Thing fresh) {
    if (own_.insert(fresh.get().bits()).second) keep(fresh);
    return fresh;
}

Thing TraceHost::own_result(Thing made) {
    const Raw r = made.get();
    if (r.is_tensor() && !is_traced(r) && program::wants_grad(r.tensor()))
        throw Refused{"a leaf that is made"};
    if (r.is_tensor() || is_value(r) || is_fixed(r) || is_live(r)) return made;
    own_parts(r);
    return own(std::move(made));
}

void TraceHost::mutate(Raw r) {
    if (!is_own(r)) throw Refused{"a write"};
    mark_.is_over = true;
}

/// Nothing but layouts, values and what was made here.
void TraceHost::expect_plain(Raw r) {
    if (r.is_tensor() || is_value(r)) return;  // a tensor that is not traced was made here, of none
    if (r.is(Kind::Slice) || is_container(r)) return look_into(r);
    throw Refused{"an object"};
}

/// What a container holds counts.
void TraceHost::look_into(Raw r) {
    if (r.is(Kind::Slice)) {
        const auto* s = r.as<Slice>();
        for (const Raw part : {s->start, s->stop, s->step}) expect_plain(part);
        return;
    }
    if (!is_own(r) && !r.is(Kind::Tuple)) throw Refused{"a container"};
    auto item = [&](Raw part) {
        if (is_live(part)) throw Refused{"an object of the caller's"};
        if (part.is_tensor() && !is_traced(part) && !is_own(r))
            throw Refused{"tensors in a container"};
        if (is_container(part)) look_into(part);
    };
    if (r.is(Kind::Dict) || r.is(Kind::Set)) {
        for (const Dict::Entry& e : r.as<Dict>()->entries)
            if (e.key && e.value) item(e.value);
    } else {
        for (Raw part : items_in(r)) item(part);
    }
}

// ---- instructions

Raw TraceHost::evaluate(Frame* frame, const FlatInstr& i, const Raw* args) {
    if (--budget_ < 0) throw Refused{"it is long"};
    return evaluated(frame, i, args).release();
}

Thing TraceHost::evaluated(Frame* frame, const FlatInstr& i, const Raw* a) {
    auto name = [&]() -> const std::string& {
        return frame->function->names[static_cast<size_t>(i.attr)][0];
    };
    auto by_host = [&](const Values& used) { return host_.evaluated(frame, i, used.data()); };
    switch (i.verb) {
        case Verb::Attr:
        case Verb::Lookup:
            return attribute(use(a[0]), name());
        case Verb::SetAttr:
            mutate(use(a[0]));
            if (!a[0].is(Kind::Record)) throw Refused{"a write"};
            return by_host({a[0], use_or_keep(a[1])});
        case Verb::Get:
            return get_item(use(a[0]), use(a[1]));
        case Verb::SetGet:
        case Verb::Put: {
            const Raw holder = use(a[0]), key = use(a[1]);
            mutate(holder);
            expect_plain(key);
            return by_host({holder, key, use_or_keep(a[2])});
        }
        case Verb::Slice: {
            const Values used{use(a[0]), use(a[1]), use(a[2])};
            for (Raw r : used) expect_plain(r);
            return own(by_host(used));
        }
        case Verb::Binary:
        case Verb::Inplace:
        case Verb::Unary:
            return operate(frame, i, a);
        case Verb::Compare:
            return compare(frame, i, a);
        case Verb::Tuple:
        case Verb::List:
        case Verb::Set:
        case Verb::Dict: {
            Values used;
            for (int32_t k = 0; k < i.count; ++k) {
                used.push_back(use_or_keep(a[k]));
                if (i.verb == Verb::Set || (i.verb == Verb::Dict && k % 2 == 0))
                    expect_plain(used.back());
            }
            return own(by_host(used));
        }
        case Verb::Insert: {
            const Values used{use(a[0]), use(a[1]), use(a[2])};
            mutate(used[0]);
            if (!used[1].is(Kind::Dict)) throw Refused{"a container"};
            look_into(used[1]);
            return by_host(used);
        }
        case Verb::Append:
        case Verb::Add:
        case Verb::Extend:
        case Verb::Update:
        case Verb::Merge: {
            const Values used{use(a[0]), use_or_keep(a[1])};
            mutate(used[0]);
            if (i.verb == Verb::Add) expect_plain(used[1]);
            else if (i.verb != Verb::Append) {
                if (!is_container(used[1])) throw Refused{"a container"};
                look_into(used[1]);
            }
            return by_host(used);
        }
        case Verb::ToTuple: {
            const Raw from = use(a[0]);
            if (is_live(from)) return items_of(from);
            if (!is_own(from) || !is_container(from)) throw Refused{"a container"};
            return own(by_host({from}));
        }
        case Verb::Iter:
            return iterate(use(a[0]));
        default:
            throw Refused{"something that is done once"};
    }
}

namespace {

constexpr std::string_view kLayoutAttributes[] = {"shape", "dtype", "device",  "ndim",
                                                  "T",     "mT",    "H",       "mH",
                                                  "real",  "imag",  "is_cuda", "itemsize"};

}  // namespace

Thing TraceHost::attribute(Raw holder, const std::string& name) {
    if (is_live(holder) || holder.is(Kind::Record) || holder.is(Kind::Tuple))
        return attribute_of_object(holder, name);
    if (holder.is_tensor()) {
        if (std::ranges::find(kLayoutAttributes, name) != std::end(kLayoutAttributes))
            return host_.attribute(holder, name, nullptr);
        // a method is looked up before its arguments are made
        Thing found = host_.attribute(holder, name, nullptr);
        if (!found.is(Kind::Method)) throw Refused{"an attribute of a tensor"};
        return own(std::move(found));
    }
    if (!is_value(holder) && !is_fixed(holder)) throw Refused{"an attribute of a container"};
    return own_result(host_.attribute(holder, name, nullptr));
}

/// Of a named tuple or an object: what it has been given here, or what lies in it.
Thing TraceHost::attribute_of_object(Raw holder, const std::string& name) {
    const Raw actual = is_live(holder) ? live_of(holder).actual : holder;
    const Class* of = actual.is(Kind::Tuple) ? actual.as<Tuple>()->of : actual.as<Record>()->of;
    const int64_t k = of ? of->field(name) : -1;
    if (k < 0 || method_named(actual, name)) throw Refused{"an attribute"};
    if (is_live(holder)) return Thing::borrow(item_of(holder, k));
    if (actual.is(Kind::Tuple)) return Thing::borrow(told(actual.as<Tuple>()->items()[k]));
    const auto* record = actual.as<Record>();
    const Raw found = record->fields[static_cast<size_t>(k)];
    if (!found) throw Refused{"an attribute that is not set"};
    if (is_own(holder)) return Thing::borrow(found);
    // an object of the package
    const auto known = std::ranges::find_if(lives_, [&](const Live& l) {
        const Source& s = made_->sources[static_cast<size_t>(l.source)];
        return s.holder == record && s.item == k;
    });
    if (known != lives_.end()) return Thing::steal(Raw::lasting(Kind::Live, &*known));
    return Thing::steal(live(found, {-1, -1, record, static_cast<int32_t>(k)}));
}

Thing TraceHost::get_item(Raw holder, Raw key) {
    if (is_live(key)) throw Refused{"a tuple of the caller's as an index"};
    if (is_live(holder)) {
        const Raw actual = live_of(holder).actual;
        if (!is_int(key) || !actual.is(Kind::Tuple)) throw Refused{"an item of a tuple"};
        const int64_t n = actual.as<Tuple>()->size;
        const int64_t k = int_in(key) < 0 ? int_in(key) + n : int_in(key);
        if (k < 0 || k >= n) throw Refused{"an item of a tuple"};
        return Thing::borrow(item_of(holder, k));
    }
    expect_plain(key);
    if (holder.is_tensor()) return native::get_item(holder, key);
    if (is_value(holder)) return own_result(native::get_item(holder, key));
    if (!is_container(holder)) throw Refused{"an item of an object"};
    if (!is_own(holder) && !holder.is(Kind::Tuple)) throw Refused{"an item of a container"};
    Thing found = native::get_item(holder, key);
    if (key.is(Kind::Slice)) return own(std::move(found));
    return is_own(holder) ? found : Thing::borrow(told(found.get()));
}

Thing TraceHost::operate(Frame* frame, const FlatInstr& i, const Raw* args) {
    Values used;
    for (int32_t k = 0; k < i.count; ++k) {
        used.push_back(use_whole(args[k]));
        expect_plain(used.back());
    }
    if (i.verb == Verb::Unary && i.sub == 3) return of_bool(!truth(used[0]));
    if (i.verb == Verb::Inplace && is_container(used[0]) && !used[0].is(Kind::Tuple))
        mutate(used[0]);
    return own_result(host_.evaluated(frame, i, used.data()));
}

Thing TraceHost::compare(Frame* frame, const FlatInstr& i, const Raw* args) {
    constexpr int32_t kIs = 6, kIsNot = 7;
    if (i.sub != kIs && i.sub != kIsNot) {
        Values used{use_whole(args[0]), use_whole(args[1])};
        for (Raw r : used)
            if (!is_fixed(r)) expect_plain(r);
        return host_.evaluated(frame, i, used.data());
    }
    Raw parts[2];
    for (int k = 0; k < 2; ++k) {
        parts[k] = use_or_keep(args[k]);
        if (!is_live(parts[k])) continue;
        // told from None by its kind
        if (!args[1 - k].is_none()) throw Refused{"whether two objects are one"};
        Live& l = live_of(parts[k]);
        ask(l, {Condition::Ask::Kind,
                0,
                l.actual.kind(),
                0,
                l.actual.is(Kind::Tuple)    ? l.actual.as<Tuple>()->of
                : l.actual.is(Kind::Record) ? l.actual.as<Record>()->of
                                            : nullptr,
                {}});
    }
    // a number is one with nothing for sure but None, flags and what is of the process; of tensors, what stands for one
    for (int k = 0; k < 2; ++k) {
        const Raw r = parts[k], other = parts[1 - k];
        const bool sure = r.is_immediate() || is_own(r) || is_traced(r) || other.is_none();
        if (!sure) throw Refused{"whether two objects are one"};
    }
    return of_bool((parts[0] == parts[1]) == (i.sub == kIs));
}

Thing TraceHost::iterate(Raw r) {
    if (is_live(r)) {
        if (!live_of(r).actual.is(Kind::Tuple)) throw Refused{"an object that is iterated"};
        const Thing items = items_of(r);
        return own_result(native::iterate(items.get()));
    }
    if (r.is(Kind::Range) && r.as<Range>()->size() > kMostTurns)
        throw Refused{"a loop over a length"};
    if (r.is_tensor()) throw Refused{"an object that is iterated"};
    if (r.is(Kind::View) && is_own(r)) return own_result(native::iterate(r));
    if (!is_own(r) && !is_value(r) && !is_container(r)) throw Refused{"an object that is iterated"};
    if (!is_own(r) && !is_value(r)) look_into(r);
    return own_result(native::iterate(r));
}

Raw TraceHost::next(Raw iterator, bool& done) {
    if (!is_own(iterator)) throw Refused{"an iterator of the caller's"};
    if (--budget_ < 0) throw Refused{"it is long"};
    mark_.is_over = true;
    auto* it = iterator.as<Iterator>();
    const bool makes = it->how != Iterator::How::Plain || (it->of && it->of.is(Kind::View));
    Thing value = native::next(*it);
    done = !value;
    if (makes && value) own_parts(value.get());
    return value.release();
}

/// With the tuples, and iterators, that were made for it.
void TraceHost::own_parts(Raw r) {
    if (r.is(Kind::Iterator)) {
        const auto* i = r.as<Iterator>();
        own(Thing::borrow(r));
        if (i->of) own_parts(i->of);
        for (Raw one : i->several) own_parts(one);
    } else if (r.is(Kind::Tuple) && !is_value(r)) {
        own(Thing::borrow(r));
        for (Raw item : items_in(r)) own_parts(item);
    }
}

bool TraceHost::unpack(Frame* frame, const FlatInstr& i, Raw value) {
    const Raw given = use(value);
    Thing used = is_live(given) ? items_of(given) : Thing::borrow(given);
    const Raw r = used.get();
    if (!r.is_tensor() && !is_value(r)) {
        if (!is_container(r)) throw Refused{"an object"};
        if (!is_own(r)) look_into(r);
    }
    if (!host_.unpack(frame, i, r)) {
        host_.take_error();
        throw Refused{"an exception"};
    }
    const int32_t* outs = frame->code->numbers.data() + i.out;
    if (i.sub >= 0) own(Thing::borrow(frame->registers[outs[i.sub]]));
    return true;
}

int TraceHost::truth(Raw r) {
    r = use(r);
    if (is_live(r))
        return !live_of(r).actual.is(Kind::Tuple) || live_of(r).actual.as<Tuple>()->size;
    if (r.is_tensor()) throw Refused{"a value that is read"};
    if (is_container(r) && !is_own(r) && !r.is(Kind::Tuple)) throw Refused{"a container"};
    if (!is_container(r) && !is_value(r) && !is_fixed(r)) throw Refused{"an object"};
    return native::truth(r);
}

/// On the way back in a loop. Of one over values in its own function only to what the next turn asks first.
bool TraceHost::pause(Frame* frame) {
    const FlatInstr& jump = frame->code->instrs[static_cast<size_t>(frame->pc)];
    const FlatInstr& head = frame->code->instrs[static_cast<size_t>(jump.target)];
    if (head.verb == Verb::Next) return true;  // its iterator was made here
    if (frame == base_ ? std::exchange(went_round_, true) : ++turns_ > kMostTurns)
        throw Refused{"a loop over values"};
    return true;
}

}  // namespace weft::native
