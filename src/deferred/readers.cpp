#include "deferred/readers.h"

#include "deferred/batcher.h"

namespace weft::deferred {

void Readers::list(const Waiting& load) {
    for (; listed_ < load.calls.size(); ++listed_) {
        uint64_t by = load.calls[listed_].owner;
        load.each_external(listed_, [&](size_t e) {
            const void* data = load.externals[e].storage()->data;
            By& known = readers_.try_emplace(data, By{by, by}).first->second;
            if (known.only != by) known.only = kSeveral;
            known.last = std::max(known.last, by);
        });
    }
}

uint64_t Readers::of(const Waiting& load, const Storage& storage) {
    list(load);
    auto found = readers_.find(storage.data);  // not the storage: `.data` has one of its own
    return found == readers_.end() ? kNobody : found->second.only;
}

uint64_t Readers::last(const Waiting& load, const Storage& storage) {
    list(load);
    uint64_t last = 0;
    if (auto now = readers_.find(storage.data); now != readers_.end()) last = now->second.last;
    if (const Ref<ExampleBatch>& batch = Batcher::current().batch) {
        const auto& known = batch->outermost().read_before;
        if (auto before = known.find(storage.data); before != known.end())
            last = std::max(last, before->second);
    }
    return last;
}

void Readers::forget(const Waiting& load) {
    readers_.clear();
    listed_ = 0;
    const Ref<ExampleBatch>& batch = Batcher::current().batch;
    if (!batch || batch->outermost().count < 2) return;
    ExampleBatch& outermost = batch->outermost();
    std::vector<uint64_t> last(load.externals.size());
    for (size_t c = 0; c < load.calls.size(); ++c)
        load.each_external(c, [&](size_t e) { last[e] = std::max(last[e], load.calls[c].owner); });
    for (size_t e = 0; e < last.size(); ++e) {
        const Storage* storage = load.externals[e].storage().get();
        if (!storage || !outermost.is_older(storage->maker)) continue;
        uint64_t& by = outermost.read_before[storage->data];
        by = std::max(by, last[e]);
    }
}

}  // namespace weft::deferred
