/// What dynamic batching keeps on each thread.
#pragma once
#include <deque>

#include "deferred/batch.h"
#include "deferred/tape.h"

namespace weft::deferred {

/// Where the reports of flushes go while somebody asks, for weft.explain.
struct Reporting {
    int scopes = 0;
    std::deque<FlushReport> flushes;  ///< stay where they are: a flush may begin within one
    Sites readers;                    ///< lines that read values since the last flush
    Sites draws, changes;             ///< lines that waited for their turn
    explicit operator bool() const { return scopes > 0; }
};

struct Batcher {
    static Batcher& current() { return current_ ? *current_ : make_current(); }

    Tape tape;  ///< of all batches on the thread: inner ones merge with those around them
    Ref<ExampleBatch> batch;    ///< that runs now, the innermost one; null outside of autobatch
    PlainLoop* loop = nullptr;  ///< inside of the example that runs; null: none
    /// While positive, no example waits (Stay).
    int staying = 0;
    Ref<GraphUse> use;  ///< of what batches record now (Note [Graph use]); null: nobody asks
    Tally tally;
    Reporting reporting;
    Settings settings;

    /// The example that makes calls now; 0: what runs is none.
    uint64_t example() const {
        return batch && memory_maker != batch->number ? memory_maker : uint64_t{0};
    }
    /// Whose the calls are that are made now: the example's, or that of the example which runs the
    /// innermost batch, between its examples; 0: nobody's.
    uint64_t responsible() const {
        return batch && memory_maker == batch->number ? batch->caller() : memory_maker;
    }
    /// The indices of the examples that run, each inside of the next.
    std::vector<int64_t> path() const;
    /// Before the example that runs, if any, sets the default dtype.
    void note_dtype() const;
    bool at_once() const { return batch && batch->at_once; }

private:
    struct OfThread;
    static Batcher& make_current();
    static inline thread_local Batcher* current_ [[gnu::tls_model("initial-exec")]] = nullptr;
};

class PlainLoop {
public:
    /// Begins a loop. It lies on the heap, as all does of a fiber's that others may read: its stack is
    /// somewhere else while another fiber runs.
    static std::unique_ptr<PlainLoop> begin(int64_t first) {
        return std::unique_ptr<PlainLoop>(new PlainLoop(first));
    }
    ~PlainLoop() { Batcher::current().loop = outer_; }
    PlainLoop(const PlainLoop&) = delete;

    int64_t index;  ///< of the example that runs
    PlainLoop* outer() const { return outer_; }

private:
    explicit PlainLoop(int64_t first) : index(first), outer_(Batcher::current().loop) {
        Batcher::current().loop = this;
    }
    PlainLoop* outer_;
};

/// What the language binding installs.
struct Host {
    /// A value is wanted. Another fiber may run until all wait; afterwards the tape was flushed.
    /// False if what runs is no example that could wait: the caller flushes.
    bool (*wait)() = nullptr;
    /// Waits until all examples before this fiber's are done; with more `levels`, also those before
    /// the example that runs this batch, and so on. `draws`: to draw random numbers, for the report.
    /// False if it could not wait.
    bool (*turn)(int levels, bool draws) = nullptr;
    /// The exception in flight, to be thrown later. Called in a catch block.
    std::exception_ptr (*keep)() = std::current_exception;
};
inline Host host;

}  // namespace weft::deferred
