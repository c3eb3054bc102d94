/// What the handles of weft.h are.
///
/// Note [Returned]
/// A Core has a heap of its own (Note [Heaps] in tensor/heap.h) and all that its context made. A tensor that it lent
/// to the caller comes back in any thread, where counts of the heap must not be touched: it is put on a list without
/// locks, which the next call empties. The Core lives as long as its handle and what it lent.
#pragma once
#include <atomic>
#include <memory>
#include <optional>

#include "c/values.h"
#include "kernels/random.h"
#include "native/context.h"
#include "native/file.h"
#include "native/package.h"
#include "tensor/heap.h"

namespace weft::c {

/// A file, checked. Immutable.
struct Program {
    /// Throws what weft_load tells.
    explicit Program(const std::string& path);
    std::shared_ptr<const native::File> file;
    std::shared_ptr<const native::Package> package;
    /// Calls may leave something behind for later ones: there are values that programs can change.
    bool keeps_state = false;
};

class Core {
public:
    explicit Core(std::shared_ptr<const Program> program);
    Core(const Core&) = delete;

    /// weft_run.
    int run(const char* entry, const weft_value* args, size_t count, const weft_value* named,
            weft_value& result, weft_error* error) noexcept;
    int seed(uint64_t number, weft_error* error) noexcept;
    void interrupt() { context_->interrupt(); }

    /// `lent` is on its way to the caller.
    void lend(Lent& lent);
    /// From any thread.
    void take_back(Lent* lent) noexcept;
    /// One holder less; the last one's ends the Core. From any thread.
    void let_go() noexcept;

private:
    class Running;
    ~Core();
    void give(const weft_value* args, size_t count, const weft_value* named);
    void empty_returned();

    Heap heap_;  // first, as it goes last
    const std::shared_ptr<const Program> program_;
    std::optional<native::Context> context_;
    kernels::Generator generator_;
    std::vector<native::Thing> given_;  ///< the arguments of the call that runs
    std::vector<std::string> names_;    ///< of the last of them
    std::atomic<bool> in_use_{false};
    std::atomic<Lent*> returned_{nullptr};
    std::atomic<int64_t> holders_{1};  ///< the handle and what it lent
};

}  // namespace weft::c
