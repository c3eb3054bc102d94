#include "ops/write.h"

#include <algorithm>

#include "tensor/apart.h"

namespace weft::ops {

void Write::check_inference() const {
    if (tensor_.has(kLooseView)) return;
    fail(ErrorKind::Runtime, "write", "a normal tensor, or a write in inference mode",
         "an inference tensor (Inplace update to inference tensor outside InferenceMode is not "
         "allowed.You can make a clone to get a normal tensor before doing inplace update.)",
         "clone() it first");
}

WriteNote& WriteNote::of(Storage& storage) {
    if (!storage.last_write) {
        auto* note = new WriteNote;
        note->storage = &storage;
        storage.last_write = Ref<WriteNote>(note).detach();
    }
    return *static_cast<WriteNote*>(storage.last_write);
}

void WriteNote::drop(void* note) {
    Ref<WriteNote> last = Ref<WriteNote>::adopt(static_cast<WriteNote*>(note));
    last->storage = nullptr;
}

bool WriteNote::gone() const {
    return !storage &&
           std::all_of(copies.begin(), copies.end(), [](const Copy& c) { return c.copy->gone(); });
}

Span span_of(const Tensor& t) {
    if (t.contiguous()) return span_of(t, {0, t.numel()});
    int64_t begin = t.bytes() - t.storage()->data, last = 0;
    if (t.numel() == 0) return {begin, begin};
    for (int d = 0; d < t.ndim(); ++d) last += (t.size(d) - 1) * t.stride(d);
    return {begin, begin + (last + 1) * item_size(t.dtype())};
}

void note_copy(Storage& original, Span from, Storage& copy, Span to) {
    std::vector<WriteNote::Copy>& copies = WriteNote::of(original).copies;
    original.watched = true;
    auto is_gone = [](const WriteNote::Copy& c) { return c.copy->gone(); };
    while (!copies.empty() && is_gone(copies.back())) copies.pop_back();
    size_t n = copies.size();
    if (n >= 16 && (n & (n - 1)) == 0) std::erase_if(copies, is_gone);
    copies.push_back(
        {from.begin, from.end, Ref<WriteNote>(&WriteNote::of(copy)), to.begin, to.end});
}

namespace {

/// `visit` for the copies of these bytes, each before its own copies.
void each_copy(const WriteNote& note, Span part, FunctionRef<void(WriteNote&, Span)> visit) {
    for (const WriteNote::Copy& c : note.copies) {
        if (c.begin >= part.end || part.begin >= c.end) continue;
        const Span to{c.to_begin, c.to_end};
        visit(*c.copy, to);
        each_copy(*c.copy, to, visit);
    }
}

}  // namespace

bool is_copy(const Storage& memory) {
    return memory.last_write && static_cast<const WriteNote*>(memory.last_write)->refs > 1;
}

void each_copy(const Storage& original, Span part, FunctionRef<void(const Storage&, Span)> visit) {
    if (!original.last_write) return;
    each_copy(*static_cast<const WriteNote*>(original.last_write), part,
              [&](WriteNote& copy, Span to) {
                  if (copy.storage) visit(*copy.storage, to);
              });
}

namespace {

/// Which elements of a tensor lie in a part of its storage: the smallest range of their numbers.
class Inside {
public:
    Inside(const Tensor& t, Span part) : t_(t), part_(part), size_(item_size(t.dtype())) {
        if (t.numel()) visit(0, span_of(t).begin, 0, t.numel());
    }
    Span elements{INT64_MAX, 0};

private:
    /// Those of the dims from `d` on, which start at byte `at` and number `first`.
    void visit(int d, int64_t at, int64_t first, int64_t count) {
        int64_t last = 0, step = 1;
        bool dense = true;
        for (int k = t_.ndim() - 1; k >= d; --k) {
            last += (t_.size(k) - 1) * t_.stride(k);
            dense &= t_.size(k) == 1 || t_.stride(k) == step;
            step *= t_.size(k);
        }
        if (at >= part_.end || at + (last + 1) * size_ <= part_.begin) return;
        if (dense) {
            int64_t begin = (std::max(part_.begin, at) - at) / size_;
            int64_t end = (std::min(part_.end, at + count * size_) - at + size_ - 1) / size_;
            elements = {std::min(elements.begin, first + begin),
                        std::max(elements.end, first + end)};
            return;
        }
        const int64_t inner = count / t_.size(d);
        for (int64_t i = 0; i < t_.size(d); ++i)
            visit(d + 1, at + i * t_.stride(d) * size_, first + i * inner, inner);
    }
    const Tensor& t_;
    const Span part_;
    const int64_t size_;
};

}  // namespace

const Site* overwritten_by(const Tensor& t, uint32_t version, FunctionRef<bool(Span)> matters) {
    static const Site unknown;
    const Storage& storage = *t.storage();
    if (storage.version() == version) return nullptr;
    if (!storage.last_write) return matters({0, t.numel()}) ? &unknown : nullptr;
    const WriteNote& note = *static_cast<const WriteNote*>(storage.last_write);
    uint32_t elsewhere = 0;
    for (const WriteNote::Part& p : note.parts) {
        if (p.version <= version) continue;
        Span inside = Inside(t, {p.begin, p.end}).elements;
        if (!inside.empty() && matters(inside)) return &p.site;
        ++elsewhere;
    }
    if (elsewhere == storage.version() - version) return nullptr;
    return matters({0, t.numel()}) ? &note.site : nullptr;
}

namespace {

/// What snapshots have of the memory as it lies; null: there are none.
Snapshot::Bytes* bytes_of(Storage& storage) {
    const auto* note = static_cast<const WriteNote*>(memory_of(storage).last_write);
    return note ? note->bytes : nullptr;
}

}  // namespace

void Write::keep_bytes(Storage& storage) {
    if (Snapshot::Bytes* bytes = bytes_of(storage)) bytes->part();
}

void Write::was_written(const Tensor& t) {
    const Change change(t);
    if (Snapshot::Bytes* bytes = bytes_of(*t.storage())) bytes->lost = true;
    Write(t).commit();
}

void Write::note(Storage& storage) {
    WriteNote& note = WriteNote::of(storage);
    note.site = Site::here();
    if (note.copies.empty()) return;
    std::vector<WriteNote::Copy> copies = std::move(note.copies);  // what is saved later is new
    note.copies.clear();
    for (const WriteNote::Copy& c : copies) overwrite(*c.copy, {c.to_begin, c.to_end});
}

void Write::overwrite(Storage& storage, Span part) { overwrite(WriteNote::of(storage), part); }

void Write::overwrite(WriteNote& note, Span part) {
    auto overwritten = [](WriteNote& copy, Span to) {
        if (Storage* storage = copy.storage)
            copy.parts.push_back({to.begin, to.end, ++storage->version_, Site::here()});
    };
    overwritten(note, part);
    each_copy(note, part, overwritten);
}

/// The version goes on: a tensor that was saved is not what it was.
void Write::exchange(const Tensor& from) {
    if (hooks.before_layout) hooks.before_layout(tensor_);
    const Storage& old = *tensor_.storage();
    Storage& now = *from.storage();
    if (&now != &old) {
        now.version_ = old.version_;
        now.watched = old.watched;
    }
    tensor_.become(from);
}

void Write::hand_over(Ref<Slot> slot) {
    TensorImpl* impl = tensor_.impl();
    impl->storage = nullptr;
    impl->data = nullptr;
    impl->slot = std::move(slot);
    tensor_.set(kPending);
}

void Write::become(const Tensor& view) { exchange(view); }

/// Whoever holds one of the two tensors sees the memory from now on, so it counts as the older one's.
void Write::show(const Tensor& other) {
    if (other.storage()->data == tensor_.storage()->data)  // its own memory, laid out otherwise
        return exchange(Tensor::from_storage(tensor_.storage(), other.bytes(), other.dtype(),
                                             other.shape(), other.strides()));
    Tensor from = other.apart();
    Storage& seen = *other.storage();
    seen.maker = std::min<uint64_t>(seen.maker, tensor_.storage()->maker);
    from.storage()->maker = seen.maker;
    exchange(from);
}

void Write::resize(DimSpan shape) {
    if (equal(tensor_.shape(), shape)) return;
    Tensor from = tensor_.resized(shape);
    from.storage()->maker = tensor_.storage()->maker;
    exchange(from);
}

}  // namespace weft::ops
