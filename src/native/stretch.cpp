/// Reading guide: whether a stretch may run, what it leaves, places.
#include "native/stretch.h"

#include <algorithm>
#include <bit>

#include "native/package.h"
#include "native/trace.h"
#include "ops/pointwise.h"
#include "program/local_array.h"
#include "program/record.h"

namespace weft::native {

using program::Onward;

bool is_value(Raw r) {
    switch (r.kind()) {
        case Kind::None:
        case Kind::Bool:
        case Kind::Int:
        case Kind::Float:
        case Kind::Complex:
        case Kind::Text:
        case Kind::DType:
        case Kind::Ellipsis:
        case Kind::Range:
            return true;
        case Kind::Tuple:
            return r.as<Tuple>()->of == &size_class() || r.as<Tuple>()->of == &bytes_class();
        default:
            return false;
    }
}

bool is_fixed(Raw r) {
    switch (r.kind()) {
        case Kind::Function:
        case Kind::Builtin:
        case Kind::Ops:
        case Kind::Type:
        case Kind::Class:
        case Kind::Mode:
            return true;
        default:
            return false;
    }
}

namespace {

using Tensors = program::LocalArray<Tensor, 24>;

/// Empty: there is none.
Raw value_of(const Host::Frame* frame, const std::vector<Source>& sources, int32_t source) {
    const Source& s = sources[static_cast<size_t>(source)];
    if (s.reg >= 0) return frame->registers[s.reg];
    const auto item = static_cast<size_t>(s.item);
    if (s.holder) return s.holder->fields[item];
    const Raw of = value_of(frame, sources, s.parent);
    return of.is(Kind::Tuple) ? of.as<Tuple>()->items()[item] : of.as<Record>()->fields[item];
}

/// Of two values.
bool same_value(Raw a, Raw b) {
    if (a == b) return true;
    if (a.is_immediate() || a.kind() != b.kind()) return false;
    auto bits = [](double v) { return std::bit_cast<uint64_t>(v); };
    switch (a.kind()) {
        case Kind::Int:
            return int_in(a) == int_in(b);
        case Kind::Float:
            return bits(double_in(a)) == bits(double_in(b));
        case Kind::Complex:
            return bits(double_in(a)) == bits(double_in(b)) &&
                   bits(a.as<Number>()->imag) == bits(b.as<Number>()->imag);
        case Kind::Text:
            return text_in(a) == text_in(b);
        case Kind::Range: {
            const auto *x = a.as<Range>(), *y = b.as<Range>();
            return x->start == y->start && x->stop == y->stop && x->step == y->step;
        }
        case Kind::Tuple: {
            const Items x = items_in(a), y = items_in(b);
            if (a.as<Tuple>()->of != b.as<Tuple>()->of || x.size != y.size) return false;
            for (int64_t k = 0; k < x.size; ++k)
                if (!same_value(x[k], y[k])) return false;
            return true;
        }
        default:
            return false;
    }
}

const Class* class_of(Raw r) {
    return r.is(Kind::Tuple)    ? r.as<Tuple>()->of
           : r.is(Kind::Record) ? r.as<Record>()->of
                                : nullptr;
}

bool meets(const Condition& c, Raw value) {
    switch (c.ask) {
        case Condition::Ask::Tensor:
            return value.is_tensor();
        case Condition::Ask::Equal:
            return same_value(value, c.value.get());
        case Condition::Ask::Tuple:
            return value.is(Kind::Tuple) && value.as<Tuple>()->size == c.length &&
                   value.as<Tuple>()->of == c.of;
        case Condition::Ask::Kind:
            return value.is(c.kind) && class_of(value) == c.of;
        case Condition::Ask::Same:
            return value == c.value.get();
    }
    return false;
}

bool is_count(Raw r) { return is_int(r) || r.is(Kind::Float); }

}  // namespace

bool Stretch::holds(const Host::Frame* frame, Tensor* tensors, int32_t& differs) const {
    differs = -1;
    if (mode != weft::mode || dtype != ops::default_dtype) return false;
    for (const Condition& c : conditions) {
        const Raw value = value_of(frame, sources, c.source);
        if (!value) return false;
        if (c.ask == Condition::Ask::Same && c.length >= 0) {
            if (value == value_of(frame, sources, static_cast<int32_t>(c.length))) continue;
            return false;
        }
        if (meets(c, value)) continue;
        if (c.ask == Condition::Ask::Equal && is_count(value) &&
            value.kind() == c.value.get().kind())
            differs = c.source;
        return false;
    }
    for (size_t k = 0; k < inputs.size(); ++k) {
        const Input& in = inputs[k];
        tensors[k] =
            (in.source < 0 ? in.captured.get() : value_of(frame, sources, in.source)).tensor();
    }
    for (const Distinct& d : distinct) {
        program::LocalArray<const TensorImpl*, 8> all(d.size());
        for (size_t k = 0; k < d.size(); ++k) all[k] = tensors[d[k]].impl();
        if (!program::all_differ(all.begin(), all.end())) return false;
    }
    return plan->fits(tensors, inputs.size());
}

void Stretch::tell_apart() {
    const program::Segment& segment = plan->segment();
    auto layout = [&](int32_t k) -> const Tensor& {
        return segment.layout(segment.inputs[static_cast<size_t>(k)]);
    };
    for (int32_t k = 0; k < static_cast<int32_t>(inputs.size()); ++k) {
        auto is_alike = [&](const Distinct& d) {
            return program::laid_out_alike(*layout(d[0]).impl(), *layout(k).impl());
        };
        auto at = std::find_if(distinct.begin(), distinct.end(), is_alike);
        if (at == distinct.end()) distinct.push_back({k});
        else at->push_back(k);
    }
    std::erase_if(distinct, [&](const Distinct& d) {  // constants stay what they are
        return d.size() < 2 ||
               std::ranges::all_of(
                   d, [&](int32_t k) { return inputs[static_cast<size_t>(k)].source < 0; });
    });
}

// ---- its end

namespace {

/// Makes the values of one end.
struct Maker {
    const Stretch& stretch;
    const Host::Frame* frame;
    const Tensor* outputs;
    const Thing* made;  ///< by recipes that came before

    Thing part(const Recipe& r, size_t k) const { return made[static_cast<size_t>(r.parts[k])]; }
    std::vector<Thing> parts(const Recipe& r) const {
        std::vector<Thing> out;
        for (size_t k = 0; k < r.parts.size(); ++k) out.push_back(part(r, k));
        return out;
    }
    Thing dict(const Recipe& r, Kind kind) const {
        Thing out = make_thing<Dict>(kind);
        out.as<Dict>()->frozen = r.number != 0;
        const size_t step = kind == Kind::Dict ? 2 : 1;
        for (size_t k = 0; k < r.parts.size(); k += step)
            out.as<Dict>()->set(part(r, k).get(), step > 1 ? part(r, k + 1).get() : Raw());
        return out;
    }
    Thing record(const Recipe& r) const {
        Thing out = make_thing<Record>(r.object.get().lasting<Class>());
        for (size_t k = 0; k < r.parts.size(); ++k)
            if (r.parts[k] >= 0) out.as<Record>()->fields[k] = part(r, k).release();
        return out;
    }
    /// Like the one that the recipe has, over other things.
    Thing iterator(const Recipe& r) const {
        const auto* like = r.object.as<Iterator>();
        Thing out = make_thing<Iterator>();
        auto* i = out.as<Iterator>();
        i->how = like->how;
        i->at = like->at;
        i->strict = like->strict;
        if (like->how == Iterator::How::Zip) {
            for (Thing& one : parts(r)) i->several.push_back(one.release());
        } else if (!r.parts.empty()) {
            i->of = part(r, 0).release();
            const Raw of = i->of.is(Kind::View) ? i->of.as<View>()->dict : i->of;
            if (of.is(Kind::Dict) || of.is(Kind::Set)) {
                i->changes = of.as<Dict>()->changes;
                i->size = of.as<Dict>()->size;
            }
        }
        return out;
    }
    Thing operator()(const Recipe& r) const {
        using Of = Recipe::Kind;
        switch (r.kind) {
            case Of::Source:
                return Thing::borrow(value_of(frame, stretch.sources, r.number));
            case Of::Output:
                return Thing(Tensor(outputs[r.number]));
            case Of::Captured:
                return r.object;
            case Of::Copy: {
                static const ops::Function clone{"clone"};
                return Thing(clone(r.object.get().tensor()));
            }
            case Of::Tuple:
                return tuple_of(parts(r), r.object ? r.object.get().lasting<Class>() : nullptr);
            case Of::List:
                return list_of(parts(r));
            case Of::Dict:
                return dict(r, Kind::Dict);
            case Of::Set:
                return dict(r, Kind::Set);
            case Of::Slice:
                return make_thing<Slice>(part(r, 0).get(), part(r, 1).get(), part(r, 2).get());
            case Of::View:
                return make_thing<View>(static_cast<View::Of>(r.number), part(r, 0).get());
            case Of::Record:
                return record(r);
            case Of::Method: {
                const auto* like = r.object.as<Method>();
                return make_thing<Method>(part(r, 0).get(), like->ops, like->builtin);
            }
            case Of::Iterator:
                return iterator(r);
        }
        return {};
    }
};

}  // namespace

Onward Stretch::run(Host::Frame* frame, const Tensor* tensors, Raw& result) {
    Tensors outputs(plan->segment().outputs.size());
    if (!program::run_plan(*plan, draws, tensors, outputs.data())) return Onward::Here;
    ++runs;
    if (returned >= 0 && recipes[0].kind == Recipe::Kind::Output && recipes.size() == 1) {
        result = Thing(std::move(outputs[static_cast<size_t>(recipes[0].number)])).release();
        return Onward::Return;  // the common end
    }
    program::LocalArray<Thing, 24> made(recipes.size());
    const Maker make{*this, frame, outputs.data(), made.data()};
    for (size_t k = 0; k < recipes.size(); ++k) made[k] = make(recipes[k]);
    if (returned >= 0) {
        result = made[static_cast<size_t>(returned)].release();
        return Onward::Return;
    }
    auto put = [&](int32_t reg, Raw value) {
        const Raw old = std::exchange(frame->registers[reg], value);
        if (old) old.drop();
    };
    for (auto [reg, recipe] : writes) put(reg, Thing(made[static_cast<size_t>(recipe)]).release());
    for (int32_t reg : clears) put(reg, Raw());
    frame->pc = pc;
    return Onward::Jump;
}

// ---- places

Onward Place::visit(Host& host, Host::Frame* frame, Raw& result) {
    ++stretches_.visits;
    if (stretches_.credit.is_over() || !host.context().by_plan || mode & kDeferMode ||
        !program::stretches_may_run())
        return Onward::Here;
    Onward onward = Onward::Here;
    using Look = program::StretchesOf<Stretch>::Look;
    const bool ran = stretches_.any_runs([&](Stretch& s) {
        if (host.depth() + s.depth > host.context().depth_limit) return Look::Passed;
        Tensors tensors(s.inputs.size());
        int32_t differs = -1;
        if (!s.holds(frame, tensors.data(), differs))
            return differs >= 0 && varies(s.sources[static_cast<size_t>(differs)]) ? Look::Gone
                                                                                   : Look::Passed;
        stretches_.credit.pay_off();
        s.last = stretches_.visits;
        if (s.pays()) [[likely]]
            onward = s.run(frame, tensors.data(), result);
        else ++s.left;
        return Look::Ran;
    });
    if (ran) return onward;
    return stretches_.rests() ? Onward::Here : trace(host, frame, result);
}

/// Note [Varying]
bool Place::varies(const Source& differs) {
    if (differs.parent >= 0) return false;  // no trace would know it again
    const bool at_once = differs.reg >= 0;
    if (!at_once && std::ranges::find(differed_, differs) == differed_.end()) {
        differed_.push_back(differs);
        return false;
    }
    varying_.push_back(differs);
    return true;
}

/// A new stretch, if there is one, runs at once.
Onward Place::trace(Host& host, Host::Frame* frame, Raw& result) {
    stretches_.drop_stale();
    if (stretches_.is_full()) return Onward::Here;
    const uint64_t signature = signature_of(frame);
    if (!stretches_.credit.grants(signature, false, !stretches_.empty())) return Onward::Here;
    stretches_.credit.take();
    Ref<Stretch> made = TraceHost(host, frame, varying_).run(&ended_, &why_);
    const bool leads_further =
        ended_ >= 0 && program::add_places_after(*frame->code, ended_, [&](int32_t pc) {
            return frame->state->add_place(pc);
        });
    if (made) return take_up(frame, std::move(made), result);
    if (!leads_further) stretches_.credit.note_failure(signature, !stretches_.empty());
    return Onward::Here;
}

Onward Place::take_up(Host::Frame* frame, Ref<Stretch> made, Raw& result) {
    made->gain = program::gain_of(made->plan->segment());
    stretches_.add(made);
    Tensors tensors(made->inputs.size());
    int32_t differs = -1;
    if (!made->holds(frame, tensors.data(), differs)) return Onward::Here;
    return made->run(frame, tensors.data(), result);
}

namespace {

uint64_t signature(uint64_t hash, Raw r, int depth) {
    using program::mix;
    hash = mix(hash, static_cast<uint64_t>(r.kind()));
    if (r.is_tensor()) {
        const Tensor t = r.tensor();
        hash = mix(hash, static_cast<uint64_t>(t.dtype()) * 2 + program::wants_grad(t));
        for (int64_t n : t.shape()) hash = mix(hash, static_cast<uint64_t>(n));
    } else if (r.is(Kind::Tuple) && depth < 3) {
        for (Raw item : items_in(r)) hash = signature(hash, item, depth + 1);
    }
    return hash;
}

}  // namespace

/// Of the registers that are read from here on.
uint64_t Place::signature_of(const Host::Frame* frame) const {
    uint64_t hash = program::mix(weft::mode, 1);
    const program::Code& code = *frame->code;
    for (int32_t r = 0; r < code.registers; ++r)
        if (frame->registers[r] && code.is_live(pc_, r))
            hash = signature(program::mix(hash, static_cast<uint64_t>(r)), frame->registers[r], 0);
    return hash;
}

bool Context::State::add_place(int32_t pc) {
    program::FlatInstr& i = code.instrs[static_cast<size_t>(pc)];
    if (i.place) return false;
    places.push_back(std::make_unique<Place>(pc));
    i.place = places.back().get();
    return true;
}

std::vector<Context::PlaceReport> Context::places() const {
    std::vector<PlaceReport> out;
    for (size_t k = 0; k < states_.size(); ++k) {
        const Function& function = package_->functions()[k];
        auto line = [&](int32_t pc) {
            const auto& instrs = states_[k].code.instrs;
            auto at = instrs.begin() + pc;
            while (at->offset < 0 && at + 1 != instrs.end()) ++at;
            return function.line_of(std::max(at->offset, 0));
        };
        for (const auto& place : states_[k].places) {
            PlaceReport& one = out.emplace_back();
            one = {&function,
                   line(place->pc()),
                   place->ended() < 0 ? 0 : line(place->ended()),
                   place->why(),
                   0,
                   0,
                   0};
            for (const Ref<Stretch>& s : place->stretches()) {
                ++one.stretches;
                one.steps += s->steps;
                one.runs += s->runs;
            }
        }
    }
    return out;
}

Onward Host::at_place(Frame* frame, Raw& result) {
    auto* place = static_cast<Place*>(frame->code->instrs[static_cast<size_t>(frame->pc)].place);
    try {
        return place->visit(*this, frame, result);
    } catch (...) {
        failed();
        return Onward::Failed;
    }
}

}  // namespace weft::native
