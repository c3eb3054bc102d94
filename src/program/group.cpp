/// Reading guide: `find_loop` asks a kernel for its loop; `GroupBuilder` turns steps into loops on buffers
/// and memory; `Group::run` runs them.
#include "program/group.h"

#include <algorithm>
#include <cstring>

#include "base/lock.h"
#include "base/parallel.h"
#include "kernels/stream.h"
#include "ops/copy.h"
#include "ops/pointwise.h"

namespace weft::program {

bool lies_as(const Tensor& t, const Tensor& space) {
    if (!equal(t.shape(), space.shape())) return false;
    for (int d = 0; d < t.ndim(); ++d)
        if (t.size(d) != 1 && t.stride(d) != space.stride(d)) return false;
    return true;
}

// ---- the loop of a step

namespace {

/// What stands for an operand while its kernel names its loop.
Tensor probe_for(const Segment& segment, int32_t v) {
    if (v < 0) return {};
    const SegmentValue& value = segment.value(v);
    const Tensor& t = value.layout;
    if (value.kind == SegmentValue::Kind::Constant && t.ndim() == 0) return t;
    Tensor probe = t.ndim() ? Tensor::empty(t.dtype(), Dims{0}) : Tensor::scalar(1, t.dtype());
    probe.set(kWrapped, t.has(kWrapped));
    return probe;
}

/// Dtypes whose loops give the same bits on dense and on strided operands. (Of a complex product the
/// compiler may contract the one half or the other.)
bool is_plain(DType t) { return !is_narrow(t) && !is_complex(t); }

bool may_be_loop(const Segment& segment, const Step& step) {
    const Tensor& out = segment.layout(step.first_out);
    if (!step.op->pointwise || !step.op->kernel || step.outs != 1 || out.numel() == 0) return false;
    if (!is_plain(out.dtype()) || !is_dense(out.shape(), out.strides())) return false;
    for (int i = 0; i < step.operands; ++i) {
        const int32_t v = segment.operand(step, i);
        if (v < 0) continue;
        const Tensor& t = segment.layout(v);
        const bool known = segment.value(v).kind == SegmentValue::Kind::Constant;
        if (!is_plain(t.dtype())) return false;
        if (step.op->reads_numbers.has(i) && t.ndim() == 0 && !known) return false;
    }
    return true;
}

/// Where operands of a loop come from: inputs of the call, or what its kernel made of known numbers.
bool name_operands(const Segment& segment, const Step& step, const std::vector<Tensor>& probes,
                   const ops::LoopCall& call, StepLoop& found) {
    bool unknown_number = false;
    for (int i = 0; i < step.operands; ++i) {
        const int32_t v = segment.operand(step, i);
        unknown_number |= v >= 0 && segment.layout(v).ndim() == 0 &&
                          segment.value(v).kind != SegmentValue::Kind::Constant;
    }
    for (int k = 0; k < call.operands; ++k) {
        const Tensor& t = call.operand[k];
        StepLoop::Operand& operand = found.operand[k];
        operand.to = call.to[k];
        operand.value = -1;
        for (int i = 0; i < step.operands; ++i)
            if (probes[static_cast<size_t>(i)].defined() && probes[static_cast<size_t>(i)].same(t))
                operand.value = segment.operand(step, i);
        if (operand.value >= 0) continue;
        if (t.ndim() != 0 || unknown_number) return false;
        operand.number = t;
    }
    return true;
}

}  // namespace

bool find_loop(const Segment& segment, const Step& step, StepLoop& found) {
    if (!may_be_loop(segment, step)) return false;
    std::vector<Tensor> probes;
    for (int i = 0; i < step.operands; ++i)
        probes.push_back(probe_for(segment, segment.operand(step, i)));
    ops::LoopCall call(*step.op, probes.data(), step.operands,
                       segment.attrs.data() + step.first_attr);
    const Tensor& out = segment.layout(step.first_out);
    call.add_output(out.dtype(), out.ndim() ? Dims{0} : Dims{});
    try {
        step.op->kernel(call);
    } catch (const Error&) {
        return false;  // it will say so when it runs
    }
    if (!call.loop || call.other) return false;
    found.loop = call.loop;
    found.operands = call.operands;
    std::memcpy(found.functor, call.functor, sizeof(found.functor));
    for (int k = 0; k < call.operands; ++k)
        if (!is_plain(call.to[k])) return false;
    return name_operands(segment, step, probes, call, found);
}

// ---- building

namespace {

int32_t item(DType t) { return static_cast<int32_t>(item_size(t)); }

}  // namespace

bool GroupBuilder::lies_as_result(const Tensor& t) const { return lies_as(t, space_); }

Group::At GroupBuilder::new_buffer(DType dtype) {
    buffers_.push_back({now(), now()});
    group_.tile_ = std::min(group_.tile_, Group::kTileBytes / item_size(dtype));
    return {~static_cast<int32_t>(buffers_.size() - 1), item(dtype), 0};
}

void GroupBuilder::note_use(Group::At& at) {
    if (at.slot < 0) buffers_[static_cast<size_t>(~at.slot)].last = now();
}

/// A copy of an operand in a buffer, of dtype `to`: of a tile, or of its one element.
Group::At GroupBuilder::copied(int32_t value, const Group::At& from, DType to) {
    for (const Copied& c : copied_)
        if (c.value == value && c.to == to) return c.at;
    const Tensor& t = segment_.layout(value);
    Group::Loop loop{};
    loop.loop = ops::cast_loop(to, t.dtype());
    loop.operands = 2;
    loop.at[1] = from;
    note_use(loop.at[1]);
    loop.at[0] = new_buffer(to);
    loop.once = from.stride == 0;
    if (!loop.once && from.slot >= 0 && !lies_as_result(t)) {
        auto stride_of = [&](int k, int d) -> int64_t {
            if (k == 0) return space_.stride(d) * item_size(to);
            const int axis = d - (space_.ndim() - t.ndim());
            if (axis < 0 || t.size(axis) == 1) return 0;
            return t.stride(axis) * item_size(t.dtype());
        };
        group_.gathers_.push_back(
            std::make_unique<kernels::StridedPlan<2>>(space_.shape(), stride_of));
        loop.gather = group_.gathers_.back().get();
    }
    Group::At at = loop.at[0];
    if (loop.once) at.stride = 0;
    group_.loops_.push_back(loop);
    copied_.push_back({value, to, at});
    return at;
}

Group::At GroupBuilder::operand(const StepLoop::Operand& of) {
    if (of.value < 0) {
        const Tensor number =
            of.number.dtype() == of.to ? of.number : ops::as_dtype(of.number, of.to);
        return {slots_.slot_of_number(number), 0, 0};
    }
    const SegmentValue& value = segment_.value(of.value);
    const Tensor& t = value.layout;
    const auto [root, offset] = segment_.place_of(of.value);
    if (value.kind == SegmentValue::Kind::Constant && t.numel() == 1 && t.dtype() != of.to)
        return {slots_.slot_of_number(ops::as_dtype(t, of.to)), 0, 0};
    Group::At at;
    for (const auto& [made, where] : made_)
        if (made == root) at = where;
    if (at.stride == 0) {  // made outside
        at = {slots_.slot_of(root), t.numel() == 1 ? 0 : item(t.dtype()), offset};
        if (at.stride && !lies_as_result(t)) return copied(of.value, at, of.to);
    }
    return t.dtype() == of.to ? at : copied(of.value, at, of.to);
}

Group::At GroupBuilder::result(int32_t value) {
    const DType dtype = segment_.layout(value).dtype();
    const int32_t slot = slots_.slot_of(value);
    Group::At to{slot, item(dtype), 0};
    if (slot >= 0 && !streams_) return to;
    Group::At at = new_buffer(dtype);
    if (slot >= 0) group_.streams_.push_back({at.slot, to});
    return at;
}

/// Buffers that are not needed at the same time become one.
void GroupBuilder::number_buffers() {
    for (const Group::Stream& s : group_.streams_)
        buffers_[static_cast<size_t>(~s.buffer)].last = static_cast<int>(group_.loops_.size());
    std::vector<int> free_from;  // the loop from which on each is free
    for (Buffer& b : buffers_) {
        size_t number = 0;
        while (number < free_from.size() && free_from[number] > b.first) ++number;
        if (number == free_from.size()) free_from.push_back(0);
        free_from[number] = b.last + 1;
        b.number = static_cast<int32_t>(number);
    }
    auto renumber = [&](int32_t& slot) {
        if (slot < 0) slot = ~buffers_[static_cast<size_t>(~slot)].number;
    };
    for (Group::Loop& loop : group_.loops_)
        for (int k = 0; k < loop.operands; ++k) renumber(loop.at[k].slot);
    for (Group::Link& l : group_.links_) renumber(l.x.slot);
    for (Group::Stream& s : group_.streams_) renumber(s.buffer);
    group_.buffers_ = static_cast<int>(free_from.size());
}

Group GroupBuilder::build(const std::vector<const Step*>& steps,
                          const std::vector<const StepLoop*>& loops) {
    space_ = segment_.layout(steps[0]->first_out);
    group_.n_ = space_.numel();
    group_.tile_ = Group::kTileBytes / item_size(space_.dtype());
    loops_ = loops;
    streams_ = moves_much(steps, loops);
    for (size_t i = 0; i < steps.size(); ++i) add_loop(*steps[i], *loops[i]);
    number_buffers();
    return std::move(group_);
}

void GroupBuilder::add_loop(const Step& step, const StepLoop& of) {
    Group::At in[3];
    const size_t before = group_.loops_.size();
    for (int k = 0; k < of.operands; ++k) in[k] = operand(of.operand[k]);
    if (group_.loops_.size() != before) last_value_ = -1;  // a copy lies between
    const int32_t value = step.first_out;
    if (!add_link(step, of, in)) {
        Group::Loop loop{};
        loop.loop = of.loop;
        loop.operands = of.operands + 1;
        for (int k = 0; k < of.operands; ++k) {
            note_use(in[k]);
            loop.at[k + 1] = in[k];
        }
        loop.at[0] = result(value);
        loop.is_double = segment_.layout(value).dtype() == DType::Float64;
        std::memcpy(loop.functor, of.functor, sizeof(loop.functor));
        group_.loops_.push_back(loop);
    }
    made_.emplace_back(value, group_.loops_.back().at[0]);
    last_value_ = is_link(of, in) && slots_.slot_of(value) < 0 && uses_of(value) == 1 ? value : -1;
}

// ---- chains

/// Whether it may be one of a chain: of floats or doubles, each an element or as the result lies.
bool GroupBuilder::is_link(const StepLoop& of, const Group::At* in) const {
    if (kernels::arithmetic_of(of.loop) == kernels::Arithmetic::None) return false;
    auto is_plain = [](const Group::At& at) {
        return at.stride == 0 || at.stride == 4 || at.stride == 8;
    };
    return is_plain(in[0]) && is_plain(in[1]);
}

int GroupBuilder::uses_of(int32_t root) const {
    int uses = 0;
    for (const StepLoop* of : loops_)
        for (int k = 0; k < of->operands; ++k)
            uses +=
                of->operand[k].value >= 0 && segment_.place_of(of->operand[k].value).root == root;
    return uses;
}

/// Puts the step behind the last loop, whose result is one of its operands and nothing else's.
bool GroupBuilder::add_link(const Step& step, const StepLoop& of, const Group::At* in) {
    if (last_value_ < 0 || !is_link(of, in)) return false;
    Group::Loop& last = group_.loops_.back();
    const int32_t made = last.at[0].slot;
    const int second = in[1].slot == made ? 1 : 0;
    if (in[second].slot != made || last.links == Group::kMostLinks) return false;
    is_linking_ = true;
    if (last.links == 0) {
        last.first_link = static_cast<int32_t>(group_.links_.size());
        last.links = 1;
        last.operands = 2;
        group_.links_.push_back({kernels::arithmetic_of(last.loop), false, last.at[2]});
    }
    Group::At x = in[1 - second];
    note_use(x);
    group_.links_.push_back({kernels::arithmetic_of(of.loop), second == 1, x});
    ++last.links;
    buffers_.pop_back();  // that of its result so far
    last.at[0] = result(step.first_out);
    is_linking_ = false;
    return true;
}

/// As a call's result would, those of the group go past the caches where all that it reads and writes is
/// more than they hold.
bool GroupBuilder::moves_much(const std::vector<const Step*>& steps,
                              const std::vector<const StepLoop*>& loops) {
    int64_t bytes = 0;
    std::vector<int32_t> seen;
    auto count = [&](int32_t value) {
        const int32_t root = segment_.place_of(value).root;
        if (std::find(seen.begin(), seen.end(), root) != seen.end()) return;
        seen.push_back(root);
        if (slots_.slot_of(root) >= 0) {
            const Tensor& t = segment_.layout(value);
            bytes += t.numel() * item_size(t.dtype());
        }
    };
    for (const Step* s : steps) count(s->first_out);
    for (const StepLoop* l : loops)
        for (int k = 0; k < l->operands; ++k)
            if (l->operand[k].value >= 0) count(l->operand[k].value);
    return bytes >= kernels::stream_bytes();
}

// ---- running

namespace {

/// `count` elements of `item` bytes, all as the first.
void fill(char* at, int64_t item, int64_t count) {
    auto as = [&]<class T>(T* p) { std::fill_n(p, count, *p); };
    if (item == 4) as(reinterpret_cast<uint32_t*>(at));
    else if (item == 8) as(reinterpret_cast<uint64_t*>(at));
    else as(reinterpret_cast<uint8_t*>(at));  // bools: groups have no narrow dtypes
}

}  // namespace

bool Group::may_write_over(int32_t out, int32_t in) const {
    int32_t stride = 0;
    size_t written = loops_.size();  // what is streamed: behind all loops
    for (const Stream& s : streams_)
        if (s.to.slot == out) stride = s.to.stride;
    for (size_t i = 0; i < loops_.size() && !stride; ++i)
        if (loops_[i].at[0].slot == out) written = i, stride = loops_[i].at[0].stride;
    auto in_order = [&](const At& at, size_t i) {
        return at.slot != in || (at.stride == stride && at.offset == 0 && i <= written);
    };
    for (size_t i = 0; i < loops_.size(); ++i) {
        const Loop& l = loops_[i];
        for (int k = 1; k < l.operands; ++k)
            if (!in_order(l.at[k], i) || (l.gather && l.at[k].slot == in)) return false;
        for (int k = 0; k < l.links; ++k)
            if (!in_order(links_[static_cast<size_t>(l.first_link + k)].x, i)) return false;
    }
    return stride != 0;
}

void Group::run_chain(const Loop& l, char* out, const char* first, char* const* table,
                      char* buffers, int64_t begin, int64_t n) const {
    kernels::Link links[kMostLinks];
    for (int k = 0; k < l.links; ++k) {
        const Link& of = links_[static_cast<size_t>(l.first_link + k)];
        const char* x = of.x.slot >= 0 ? table[of.x.slot] + of.x.offset + begin * of.x.stride
                                       : buffers + ~of.x.slot * kTileBytes;
        links[k] = {of.op, of.is_second, of.x.stride == 0, x};
    }
    auto run = [&]<class T>(T* to) {
        kernels::run_chain(to, reinterpret_cast<const T*>(first), l.at[1].stride == 0, links,
                           l.links, n);
    };
    if (l.is_double) run(reinterpret_cast<double*>(out));
    else run(reinterpret_cast<float*>(out));
}

void Group::run_tile(char* const* table, char* buffers, int64_t begin, int64_t n) const {
    for (const Loop& l : loops_) {
        char* p[4];
        int64_t s[4];
        for (int k = 0; k < l.operands; ++k) {
            const At& at = l.at[k];
            s[k] = at.stride;
            p[k] = at.slot >= 0 ? table[at.slot] + at.offset + begin * at.stride
                                : buffers + ~at.slot * kTileBytes;
        }
        if (l.links) {
            run_chain(l, p[0], p[1], table, buffers, begin, n);
            continue;
        }
        if (!l.gather) [[likely]] {
            l.loop(l.functor, p, s, l.once ? 1 : n);
            continue;
        }
        char* const base[2] = {p[0] - begin * s[0], table[l.at[1].slot] + l.at[1].offset};
        l.gather->run(base, begin, begin + n,
                      [&](char* const* at, const int64_t* strides, int64_t count) {
                          if (strides[1] != 0 || strides[0] != s[0])
                              return l.loop(l.functor, at, strides, count);
                          l.loop(l.functor, at, strides, 1);
                          fill(at[0], s[0], count);
                      });
    }
    for (const Stream& s : streams_)
        kernels::stream_out(table[s.to.slot] + s.to.offset + begin * s.to.stride,
                            buffers + ~s.buffer * kTileBytes, n * s.to.stride);
}

void Group::run_piece(char* const* table, int64_t begin, int64_t end) const {
    constexpr int kFew = 16;
    alignas(64) char few[kFew * kTileBytes];
    std::unique_ptr<char[]> many;
    char* buffers = few;
    if (buffers_ > kFew) [[unlikely]] {
        many.reset(new char[static_cast<size_t>(buffers_ * kTileBytes + 64)]);
        buffers = many.get() + 64 - reinterpret_cast<uintptr_t>(many.get()) % 64;
    }
    for (int64_t b = begin; b < end;) {
        int64_t n = std::min(tile_, end - b);
        if (const int64_t rest = end - b - n; rest > 0 && rest < 64)
            n -= 64;  // no few elements last
        run_tile(table, buffers, b, n);
        b += n;
    }
    if (!streams_.empty()) kernels::finish_stores();
}

void Group::run(char* const* table) const {
    if (n_ <= tile_ && !buffers_) return run_tile(table, nullptr, 0, n_);
    if (n_ <= ops::kPointwiseGrain) return run_piece(table, 0, n_);
    Unlocked unlocked(n_ * static_cast<int64_t>(loops_.size()));
    parallel_for(n_, ops::kPointwiseGrain,
                 [&](int64_t begin, int64_t end) { run_piece(table, begin, end); });
}

}  // namespace weft::program
