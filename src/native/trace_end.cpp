/// A trace from its beginning to its end, and what is at the end.
#include "native/package.h"
#include "native/trace.h"
#include "ops/pointwise.h"

namespace weft::native {

using program::Refused;

/// Says how values at the end are made.
struct Finisher {
    TraceHost& host;
    Stretch& stretch;
    std::vector<Tensor> outputs{};
    std::unordered_map<uint64_t, int32_t> known{};
    std::unordered_set<const Storage*> copied{};
    int depth = 0;

    using Of = Recipe::Kind;
    using Parts = std::vector<int32_t>;
    static constexpr int kDeepest = 100;

    int32_t add(Raw r, Recipe recipe) {
        const auto number = static_cast<int32_t>(stretch.recipes.size());
        stretch.recipes.push_back(std::move(recipe));
        known.emplace(r.bits(), number);
        return number;
    }
    int32_t captured(Raw r) {
        expect_outside(r, 0);
        return add(r, {Of::Captured, 0, Thing::borrow(r)});
    }
    /// What was there before holds nothing of the trace.
    static void expect_outside(Raw r, int depth) {
        if (depth > kDeepest || r.is(Kind::Live) ||
            (r.is_tensor() && program::is_traced(r.tensor())))
            throw Refused{"a value at the end"};
        if (is_sequence(r))
            for (Raw item : items_in(r)) expect_outside(item, depth + 1);
        if (r.is(Kind::Dict))
            for (const Dict::Entry& e : r.as<Dict>()->entries)
                if (e.key) expect_outside(e.value, depth + 1);
        if (r.is(Kind::Iterator) || r.is(Kind::View) || r.is(Kind::Method))
            throw Refused{"a value at the end"};
    }

    /// Throws Refused.
    int32_t recipe(Raw r) {
        if (auto at = known.find(r.bits()); at != known.end()) return at->second;
        if (r.is(Kind::Live)) return add(r, {Of::Source, TraceHost::live_of(r).source});
        if (r.is_tensor()) return tensor(r);
        if (!host.is_own(r) || is_value(r)) return captured(r);
        if (++depth > kDeepest) throw Refused{"a container in itself"};
        const int32_t made = object(r);
        --depth;
        return made;
    }

    int32_t tensor(Raw r) {
        if (auto at = host.actual_.find(r.bits()); at != host.actual_.end()) {
            if (at->second.source >= 0) return add(r, {Of::Source, at->second.source});
            return add(r, {Of::Captured, 0, Thing::borrow(at->second.actual)});
        }
        const Tensor t = r.tensor();
        if (!program::is_traced(t)) {
            // what is written into one would be seen in the other
            if (!copied.insert(t.storage().get()).second) throw Refused{"views of what was made"};
            return add(r, {Of::Copy, 0, Thing::borrow(r)});
        }
        outputs.push_back(t);
        return add(r, {Of::Output, static_cast<int32_t>(outputs.size()) - 1});
    }

    template <class All>
    Parts parts(const All& all) {
        Parts out;
        for (const Raw r : all) out.push_back(r ? recipe(r) : -1);
        return out;
    }
    static Thing class_thing(const Class* of) {
        return of ? Thing::steal(Raw::lasting(Kind::Class, of)) : Thing();
    }

    int32_t object(Raw r) {
        switch (r.kind()) {
            case Kind::Tuple: {
                Parts all = parts(items_in(r));
                return add(r, {Of::Tuple, 0, class_thing(r.as<Tuple>()->of), std::move(all)});
            }
            case Kind::List: {
                Parts all = parts(items_in(r));
                return add(r, {Of::List, 0, {}, std::move(all)});
            }
            case Kind::Dict:
            case Kind::Set:
                return dict(r);
            case Kind::Slice: {
                const auto* s = r.as<Slice>();
                Parts all = parts(std::initializer_list<Raw>{s->start, s->stop, s->step});
                return add(r, {Of::Slice, 0, {}, std::move(all)});
            }
            case Kind::View: {
                const auto* v = r.as<View>();
                Parts all{recipe(v->dict)};
                return add(r, {Of::View, static_cast<int32_t>(v->of), {}, std::move(all)});
            }
            case Kind::Record: {
                const auto* record = r.as<Record>();
                if (!record->others.empty()) throw Refused{"a value at the end"};
                Parts all = parts(record->fields);
                return add(r, {Of::Record, 0, class_thing(record->of), std::move(all)});
            }
            case Kind::Method: {
                Parts all{recipe(r.as<Method>()->self)};
                return add(r, {Of::Method, 0, Thing::borrow(r), std::move(all)});
            }
            case Kind::Iterator:
                return iterator(r);
            default:
                throw Refused{"a value at the end"};
        }
    }

    int32_t dict(Raw r) {
        Parts all;
        for (const Dict::Entry& e : r.as<Dict>()->entries) {
            if (!e.key) continue;
            all.push_back(recipe(e.key));
            if (e.value) all.push_back(recipe(e.value));
        }
        const bool frozen = r.as<Dict>()->frozen;
        return add(r, {r.is(Kind::Set) ? Of::Set : Of::Dict, frozen, {}, std::move(all)});
    }

    int32_t iterator(Raw r) {
        const auto* i = r.as<Iterator>();
        if (i->of) {
            const Raw dict = i->of.is(Kind::View) ? i->of.as<View>()->dict : i->of;
            // it counts places of what was removed, too
            if ((dict.is(Kind::Dict) || dict.is(Kind::Set)) &&
                dict.as<Dict>()->size != static_cast<int64_t>(dict.as<Dict>()->entries.size()))
                throw Refused{"a value at the end"};
        }
        Thing like = make_thing<Iterator>();
        auto* made = like.as<Iterator>();
        made->how = i->how;
        made->at = i->at;
        made->strict = i->strict;
        Parts all = parts(i->several);
        if (i->of) all.push_back(recipe(i->of));
        return add(r, {Of::Iterator, 0, std::move(like), std::move(all)});
    }
};

void TraceHost::begin() {
    const program::Code& code = *at_->code;
    base_ = host_.new_frame(*at_->function);
    base_->pc = at_->pc;
    open_.push_back(base_);
    made_->mode = mode;
    made_->dtype = ops::default_dtype;
    for (int32_t r = 0; r < code.registers; ++r)
        if (at_->registers[r] && code.is_live(at_->pc, r))
            base_->registers[r] = live(at_->registers[r], {r});
    mark();
}

Thing TraceHost::run_base(const char** why) {
    auto why_not = [&] { return tracer_->refused() ? tracer_->refused() : "an exception"; };
    try {
        const program::Tracer::Scope scope(*tracer_);
        program::Machine<TraceHost> machine(*this);
        *why = nullptr;
        return Thing::steal(machine.run(base_));
    } catch (const Refused& refused) {
        *why = refused.why;
    } catch (const Raised&) {
        *why = why_not();
    } catch (const std::exception&) {  // of an op, or no room for a list
        *why = why_not();
    }
    return {};
}

Ref<Stretch> TraceHost::finish(Raw returned, const char** why) {
    Stretch& s = *made_;
    const Refused none{"nothing to gain"};
    try {
        Finisher finisher{*this, s};
        if (returned) {
            s.returned = finisher.recipe(returned);
        } else {
            auto value = [&](int32_t r) { return mark_.registers[static_cast<size_t>(r)].get(); };
            s.end_at(
                *at_->code, mark_.pc,
                [&](int32_t r) { return static_cast<bool>(at_->registers[r]); },
                [&](int32_t r) { return static_cast<bool>(value(r)); },
                [&](int32_t r) {
                    return is_live(value(r)) &&
                           s.sources[static_cast<size_t>(live_of(value(r)).source)].reg == r;
                },
                [&](int32_t r) { return finisher.recipe(value(r)); });
        }
        // of one op the plan spares what leads to it only if that is a call of a function
        if (!s.take(tracer_->finish(finisher.outputs), s.depth > 0 ? 1 : 2)) throw none;
        s.tell_apart();
    } catch (const Refused& refused) {
        if (!*why || refused.why != none.why) *why = refused.why;
        return {};
    } catch (const program::NotTraceable&) {
        *why = "a value of before";
        return {};
    }
    return std::move(made_);
}

Ref<Stretch> TraceHost::run(int32_t* ended, const char** why) {
    begin();
    const Thing returned = run_base(why);
    *ended = base_->pc;
    if (!returned) {
        if (mark_.is_over) return {};
        tracer_->shrink(mark_.steps);  // those run that might raise, whether they are needed or not
    }
    return finish(returned.get(), why);
}

}  // namespace weft::native
