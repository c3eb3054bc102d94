#include "watch/log.h"

#include <algorithm>
#include <chrono>

#include "autograd/meta.h"
#include "autograd/op_node.h"
#include "autograd/sparse.h"
#include "ops/shape.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace weft::watch {

using ops::scopes, ops::SpanKind;

// ---- time --------------------------------------------------------------------------------------

/// A clock that costs less than a call: the processor's own, whose rate `seconds_per_tick` measures.
int64_t Log::ticks() {
#if defined(__x86_64__)
    return static_cast<int64_t>(__rdtsc());
#else
    return std::chrono::steady_clock::now().time_since_epoch().count();
#endif
}

double Log::seconds_per_tick() const {
    const int64_t passed = ticks() - first_tick_;
    return passed > 0 ? (seconds() - first_second_) / static_cast<double>(passed) : 0;
}

// ---- names and lines ---------------------------------------------------------------------------

int32_t Log::name_of(const void* key, std::string_view name, const void* object) {
    int32_t& number =
        key ? named_.at(key) : texts_.try_emplace(std::string(name), -1).first->second;
    if (number < 0) {
        number = static_cast<int32_t>(names.size());
        names.emplace_back(name);
        objects.push_back(object);
    }
    return number;
}

void Log::name_calls() {
    for (; called_ < events.size(); ++called_)
        if (Event& event = events[called_]; event.op)
            event.name = name_of(event.op, event.op->public_name);
}

int32_t Log::number_of(Site site) {
    if (!site) return -1;
    int32_t& number = lines_.at(site.code(), site.offset());
    if (number < 0) {
        number = static_cast<int32_t>(sites.size());
        sites.push_back(std::move(site));  // the code lives as long as its number
    }
    return number;
}

// ---- values ------------------------------------------------------------------------------------

int32_t Log::add(const Tensor& t, int32_t event, int32_t memory, bool view) {
    const int ndim = t.ndim();
    const bool strided = !t.contiguous();
    const auto number = static_cast<int32_t>(values.size());
    values.push_back(
        {.event = event,
         .memory = memory,
         .dims = static_cast<uint32_t>(dims.size()),
         .ndim = static_cast<uint8_t>(ndim),
         .dtype = t.dtype(),
         .marks = static_cast<uint8_t>((requires_grad(t) ? kRequiresGrad : 0) | (view ? kView : 0) |
                                       (strided ? kStrided : 0))});
    for (int d = 0; d < (strided ? 2 * ndim : ndim); ++d)  // sizes, then strides
        dims.push_back(t.impl()->dims[d]);
    t.impl()->seen = static_cast<uint64_t>(mine(number));
    return number;
}

/// The number of its storage; one that is new was made by `event`.
int32_t Log::memory_of(const Tensor& t, int32_t event) {
    Storage* storage = t.storage().get();
    int32_t& number = storages_.at(storage);
    if (storage->seen && number >= 0 && memories[number].freed < 0) return number;
    number = static_cast<int32_t>(memories.size());
    storage->seen = 1;
    memories.push_back({.storage = storage,
                        .bytes = storage->bytes,
                        .event = event,
                        .since = static_cast<int32_t>(events.size()) - 1,
                        .last = static_cast<int32_t>(values.size())});
    return number;
}

int32_t Log::value_of(const Tensor& t) {
    if (!t.defined()) return -1;
    const bool is_layout = t.has(kPending) || !t.storage() || sparse::is(t);
    if (const int32_t value = seen(t); value >= 0) {
        const int32_t memory = values[value].memory;
        if (memory < 0
                ? is_layout
                : memories[memory].storage == t.storage().get() && memories[memory].last <= value)
            return value;
    }
    int32_t memory = -1, event = -1;
    if (!is_layout) {
        memory = memory_of(t, -1);
        const int32_t last = memories[memory].last;
        if (last < static_cast<int32_t>(values.size())) event = values[last].event;
    }
    const int32_t value = add(t, event, memory, false);
    if (event < 0) found.push_back({value, t.impl()});
    return value;
}

/// `wrote`: whether an event has written memory that was there; new memory is written by whom it is of.
int32_t Log::add_output(const Tensor& t, int32_t event, bool view, bool wrote) {
    if (!t.defined()) return -1;
    const int32_t known = seen(t);
    if (known >= 0 && values[known].event < event && !wrote) return known;  // an operand, as it was
    const bool is_layout = t.has(kPending) || !t.storage() || sparse::is(t);
    const int32_t memory = is_layout ? -1 : memory_of(t, event);
    const int32_t value = add(t, event, memory, view);
    const bool inside = known >= 0 && values[known].event > event;
    if (inside) values[value].marks |= kInside;
    if (is_layout || view) return value;
    if (wrote || memories[memory].event == event) memories[memory].last = value;
    if (!options_.sample || !is_floating(t.dtype())) return value;
    if (const Statistics* same = inside ? statistics_at(known) : nullptr) {
        statistics.push_back(*same);
        statistics[statistics.size() - 1].value = value;
    } else if (is_written(t)) {
        statistics.push_back(statistics_of(t, value, options_.sample));
    }
    return value;
}

/// Rows of later values stand behind.
const Statistics* Log::statistics_at(int32_t value) const {
    const size_t at = statistics.first_from(value, [](const Statistics& s) { return s.value; });
    const bool found_it = at < statistics.size() && statistics[at].value == value;
    return found_it ? &statistics[at] : nullptr;
}

int32_t Log::event_of(const Tensor& t) const {
    const int32_t value = seen(t);
    return value < 0 ? -1 : values[static_cast<size_t>(value)].event;
}

bool Log::is_inside(const Tensor& t) const {
    const int32_t value = seen(t);
    return value >= 0 && values[static_cast<size_t>(value)].marks & kInside;
}

/// Its elements are of the call that made it: not of a view's, of one's inside, nor memory that
/// `empty` has made.
bool Log::is_written(const Tensor& t) const {
    if (is_inside(t)) return false;
    const int32_t event = event_of(t);
    const Op* op = event < 0 ? nullptr : events[static_cast<size_t>(event)].op;
    return !op || (!op->view && op->kernel != ops::no_kernel);
}

std::vector<Log*>& Log::listening() {
    static std::vector<Log*> logs;
    return logs;
}

void Log::finish() {
    finished_ = true;
    std::erase(listening(), this);
}

void Log::released(const Storage* storage) {
    const int32_t number = storages_.at(storage);
    if (number >= 0 && memories[number].freed < 0)
        memories[number].freed = static_cast<int32_t>(events.size()) - 1;
}

// ---- events ------------------------------------------------------------------------------------

void Log::forget() {
    number_ = ++logs;
    events.clear(), values.clear(), operands.clear(), dims.clear();
    memories.clear(), found.clear(), statistics.clear(), flops.clear();
    names.clear(), objects.clear(), texts_.clear();
    storages_.clear(), named_.clear(), lines_.clear(), made_in_.clear();
    called_ = 0;
    for (const Ref<Stop>& stop : stops_) stop->forget();
    written_.clear();
    sites.clear();
}

int32_t Log::begin(SpanKind kind) {
    const int32_t around = own(scopes.inside);
    if (around < 0 && events.size() >= options_.most) [[unlikely]]
        forget();
    const auto number = static_cast<int32_t>(events.size());
    scopes.inside = mine(number);
    Event& event = events.add();
    event = {.kind = kind, .parent = around};
    event.operands = static_cast<uint32_t>(operands.size());
    if (around >= 0) {
        event.backward = events[around].backward;
        event.module = events[around].module;
    }
    if (kind == SpanKind::Module) event.module = number;
    else if (scopes.origin >= 0 && event.module < 0)
        if (const int32_t made_in = own(scopes.origin); made_in >= 0)
            event.module = events[made_in].module;
    event.bytes_before = memory_stats().current;
    if (options_.times) event.began = ticks();
    return number;
}

void Log::end(int32_t number, bool failed) {
    Event& event = events[number];
    if (options_.times) event.ended = ticks();
    event.failed = failed;
    event.bytes = memory_stats().current;
    if (own(scopes.inside) == number) [[likely]]
        scopes.inside = event.parent < 0 ? -1 : mine(event.parent);
    else end_outer(number);
}

/// Of one that ends before what began inside of it, as spans of the user may: those go on without it.
void Log::end_outer(int32_t number) {
    int32_t at = own(scopes.inside);
    while (at > number) at = events[at].parent;
    if (at != number) return;
    const int32_t around = events[number].parent;
    scopes.inside = around < 0 ? -1 : mine(around);
}

int64_t Log::before(const Call& c) {
    if (finished_) return -1;
    const int32_t number = begin(SpanKind::Call);
    Event& event = events[number];
    event.op = c.op;
    event.in_place = c.in_place;
    // what runs inside of a call, or backward, is of the line that this is of
    const Event* around = event.parent >= 0 ? &events[event.parent] : nullptr;
    const bool has_line = around && (around->backward || around->kind == SpanKind::Call);
    event.site = has_line ? around->site : number_of(Site::here());
    if (options_.stacks) event.stack = has_line ? around->stack : stack_here();
    event.inputs = static_cast<uint32_t>(c.inputs);
    for (int i = 0; i < c.inputs; ++i) operands.push_back(value_of(c.in[i]));
    if (whole_inputs && c.dest.defined()) [[unlikely]]
        note_written(number, c.dest);
    return mine(number);
}

/// What is about to be written over has its last look.
void Log::note_written(int32_t event, const Tensor& dest) {
    const bool asked = std::any_of(stops_.begin(), stops_.end(),
                                   [](const Ref<Stop>& stop) { return stop->asks_values(); });
    if (asked && !dest.has(kPending) && dest.storage() && !sparse::is(dest))
        written_[event] = extremes_of(dest);
}

namespace {

const Node* node_of(const Tensor& t) {
    if (detail::made_by_node(t)) return static_cast<const Node*>(t.impl()->slot.get());
    const GradMeta* meta = meta_or_null(t);
    return meta ? meta->grad_fn.get() : nullptr;
}

}  // namespace

/// What made the node. In the order of recording, so that it is found again.
void Log::note_node(int32_t number, const Node& node) {
    Event& event = events[number];
    event.node = node.sequence + 1;
    const size_t count = made_in_.size();
    if (event.module >= 0 && (!count || made_in_[count - 1].node < event.node))
        made_in_.push_back({event.node, event.module});
}

/// The call of a module that the node was made in; -1: none that is known.
int32_t Log::module_of(const Node& node) const {
    const uint64_t wanted = node.sequence + 1;
    const size_t at = made_in_.first_from(wanted, [](const MadeIn& m) { return m.node; });
    const bool found_it = at < made_in_.size() && made_in_[at].node == wanted;
    return found_it ? made_in_[at].module : -1;
}

Event& Log::gather_operands(int32_t number) {
    Event& event = events[number];
    if (operands.size() != event.operands + event.inputs) {  // calls inside have put theirs behind
        const auto first = static_cast<uint32_t>(operands.size());
        for (uint32_t i = 0; i < event.inputs; ++i)
            operands.push_back(operands[event.operands + i]);
        event.operands = first;
    }
    return event;
}

void Log::after(int64_t open, Call& c) {
    const int32_t number = own(open);
    if (finished_ || number < 0) return;
    Event& event = gather_operands(number);
    event.outputs = static_cast<uint32_t>(c.outputs);
    for (int k = 0; k < c.outputs; ++k)
        operands.push_back(add_output(c.out(k), number, c.op->view, c.dest.defined()));
    if (c.op->flops) flops.push_back({number, c.op->flops(c)});
    const bool recorded =
        mode & kGradMode && c.outputs && c.out(0).defined() && c.out(0).has(kTracked);
    if (const Node* node = recorded ? node_of(c.out(0)) : nullptr) {
        note_node(number, *node);
        if (auto* op = dynamic_cast<const OpNode*>(node); op && &op->op() == c.op)
            event.saved = op->kept();
    }
    if (whole_inputs) [[unlikely]]
        check_stops(number, {c.in, static_cast<size_t>(c.inputs)},
                    {&c.out(0), static_cast<size_t>(c.outputs)});
    if (c.dest.defined()) written_.erase(number);
    end(number, false);
}

namespace {

bool is_among(const Tensor& t, std::span<const Tensor> outputs) {
    return std::any_of(outputs.begin(), outputs.end(), [&](const Tensor& out) {
        return out.defined() && out.storage() == t.storage();
    });
}

}  // namespace

void Log::check_stops(int32_t number, std::span<const Tensor> inputs,
                      std::span<const Tensor> outputs) {
    const Event event = events[number];  // of which a pattern's answer may make another
    if (const Ref<Stop> next = std::exchange(next_, {})) {
        stopped(*next, number, inputs, outputs);
        return;
    }
    auto has_memory = [](const Tensor& t) {
        return t.defined() && !t.has(kPending) && t.storage() && !sparse::is(t);
    };
    std::optional<Extremes> had;
    if (auto at = written_.find(number); at != written_.end()) had = at->second;
    std::vector<Stop::Before> before;
    for (size_t i = 0; i < inputs.size(); ++i) {
        const int32_t value = operands[event.operands + i];
        if (value < 0 || !has_memory(inputs[i]) || inputs[i].has(kWrapped)) continue;
        const bool over = (had || event.kind == SpanKind::Step) && is_among(inputs[i], outputs);
        if (!over) before.push_back({&inputs[i], values[value].event >= 0, {}});
        else if (had) before.push_back({&inputs[i], true, had});
    }
    for (size_t i = 0; i < stops_.size(); ++i) {
        const Ref<Stop> stop = stops_[i];                          // it may be removed meanwhile
        if (stop->last > number || !stop->is_at(event)) continue;  // it was at one inside
        const bool wanted = std::any_of(outputs.begin(), outputs.end(), [&](const Tensor& t) {
            if (!has_memory(t)) return false;
            const bool inside = is_inside(t) || event_of(t) > number;
            if (inside && stop->is_everywhere()) return false;
            return stop->wants(t, inside || is_written(t), before);
        });
        if (wanted && stopped(*stop, number, inputs, outputs)) stop->last = number;
    }
}

void Log::remove_stop(const Ref<Stop>& stop) {
    if (next_ == stop) next_ = {};
    std::erase(stops_, stop);
    whole_inputs = !stops_.empty();
}

void Log::want(const Options& options) {
    wanted_.push_back(options);
    choose_options();
}

void Log::want_no_more(const Options& options) {
    auto at = std::find(wanted_.begin(), wanted_.end(), options);
    if (at != wanted_.end()) wanted_.erase(at);
    choose_options();
}

void Log::choose_options() {
    options_ = {};
    for (const Options& wanted : wanted_) {
        options_.times |= wanted.times;
        options_.stacks |= wanted.stacks;
        options_.sample = std::max(options_.sample, wanted.sample);
        options_.most = std::max(options_.most, wanted.most);
    }
}

int64_t Log::open(SpanKind kind, std::string_view name, const void* object) {
    if (finished_) return -1;
    const int32_t number = begin(kind);
    Event& event = events[number];
    if (kind == SpanKind::Node) {
        auto& node = *static_cast<const Node*>(object);
        event.name = name_of(nullptr, node.name());
        event.site = number_of(node.site.copy());
        event.node = node.sequence + 1;
        event.backward = true;
        if (const int32_t module = module_of(node); module >= 0) event.module = module;
        return mine(number);
    }
    if (kind == SpanKind::Backward) event.backward = true;
    event.name = name_of(object, name, object);
    event.site = number_of(Site::here());
    if (options_.stacks) event.stack = stack_here();
    return mine(number);
}

void Log::give(int64_t open, std::span<const Tensor> inputs) {
    const int32_t number = own(open);
    if (finished_ || number < 0) return;
    Event& event = gather_operands(number);
    event.inputs = static_cast<uint32_t>(inputs.size());
    for (const Tensor& t : inputs) operands.push_back(value_of(t));
}

/// What an event inside has made is its; the rest is of the event itself.
void Log::take(int64_t open, std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
    const int32_t number = own(open);
    if (finished_ || number < 0) return;
    Event& event = gather_operands(number);
    event.outputs = static_cast<uint32_t>(outputs.size());
    for (const Tensor& t : outputs) {
        const int32_t known = t.defined() ? seen(t) : -1;
        const bool made_inside = known >= 0 && values[known].event > number;
        const bool wrote = events[number].kind == SpanKind::Step;
        operands.push_back(made_inside ? known : add_output(t, number, false, wrote));
    }
    if (whole_inputs) [[unlikely]]
        check_stops(number, inputs, outputs);
}

void Log::close(int64_t open, bool failed) {
    const int32_t number = own(open);
    if (!finished_ && number >= 0) end(number, failed);
}

void install() {
    release_seen = [](const Storage* storage) {
        for (Log* log : Log::listening()) log->released(storage);
    };
}

}  // namespace weft::watch
