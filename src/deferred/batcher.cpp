#include "deferred/batcher.h"

#include <mutex>

#include "ops/pointwise.h"

namespace weft::deferred {

Surroundings Surroundings::now() {
    return {memory_maker, weft::mode, Batcher::current().loop, ops::scopes};
}

void Surroundings::restore() const {
    memory_maker = maker;
    weft::mode = mode;
    Batcher::current().loop = loop;
    ops::scopes = scopes;
}

std::vector<int64_t> Batcher::path() const {
    std::vector<int64_t> path;
    const PlainLoop* at = loop;
    uint64_t who = memory_maker;
    for (const ExampleBatch* b = batch.get();; b = b->outer.get()) {
        for (; at; at = at->outer()) path.push_back(at->index);
        if (!b) return path;
        if (b->has(who)) path.push_back(b->index_of(who));
        at = b->callers.loop;
        who = b->caller();
    }
}

void Batcher::note_dtype() const {
    uint64_t who = example();
    for (ExampleBatch* b = who ? batch.get() : nullptr; b; who = b->caller(), b = b->outer.get()) {
        if (!b->dtype_setter) b->dtype = ops::default_dtype;
        b->dtype_setter = std::max(b->dtype_setter, who);
    }
}

namespace {

/// Batchers of threads that have ended serve those that begin: to release one would take Python's lock,
/// which a thread at its end has no right to. Never destroyed, as Python drops values until the very end.
struct Spare {
    std::mutex mutex;
    std::vector<Batcher*> batchers;
};
Spare& spare() {
    static auto* all = new Spare;
    return *all;
}

}  // namespace

/// Gives the thread's batcher back when the thread ends.
struct Batcher::OfThread {
    ~OfThread() {
        Batcher* batcher = std::exchange(current_, nullptr);
        if (!batcher->tape.empty() || batcher->batch || batcher->reporting) return;
        batcher->tally = {};
        batcher->settings = {};
        batcher->staying = 0;
        std::lock_guard lock(spare().mutex);
        spare().batchers.push_back(batcher);
    }
};

Batcher& Batcher::make_current() {
    {
        std::lock_guard lock(spare().mutex);
        if (!spare().batchers.empty()) {
            current_ = spare().batchers.back();
            spare().batchers.pop_back();
        }
    }
    if (!current_) current_ = new Batcher;
    static thread_local OfThread of_thread;
    (void)of_thread;
    return *current_;
}

}  // namespace weft::deferred
