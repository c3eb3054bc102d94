/// What the handles of weft.h are.
///
/// Note [Returned]
/// A Core has a heap of its own (Note [Heaps] in tensor/heap.h) and all that its context made. A tensor that it lent
/// to the caller comes back in any thread, where counts of the heap must not be touched: it is put on a list without
/// locks, which the next call empties. While there is a handle, calls alone count what is out. When it goes, the list is
/// closed and the count left to those who bring something back: the last of them ends the Core.
#pragma once
#include <atomic>
#include <memory>
#include <optional>

#include "c/arguments.h"
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
    const native::Function* forward = nullptr;  ///< the entry of this name; null: there is none
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

    /// One more tensor is on its way to the caller.
    void count_lent() { ++out_; }
    /// From any thread.
    void take_back(Lent* lent) noexcept;
    /// The handle goes.
    void let_go() noexcept;

private:
    class Running;
    ~Core();
    /// Those of the list; how many they are.
    static int64_t free_all(Lent* list);
    /// Stands for a list that is closed.
    Lent* closed() { return reinterpret_cast<Lent*>(this); }

    Heap heap_;  // first, as it goes last
    const std::shared_ptr<const Program> program_;
    std::optional<native::Context> context_;
    kernels::Generator generator_;
    Arguments given_;
    std::atomic<bool> in_use_{false};
    std::atomic<Lent*> returned_{nullptr};
    int64_t out_ = 0;                   ///< lent and not freed, while there is a handle
    std::atomic<Lent*> late_{nullptr};  ///< what came back without one
    std::atomic<int64_t> late_out_{0};  ///< what has not
};

}  // namespace weft::c
