/// One thread pool for the whole process: `parallel_for` over an index range.
///
/// The caller takes part, so `n` threads means `n - 1` workers. Workers start on the first call
/// that needs them, spin for some microseconds between calls and then sleep. A forked child starts
/// without workers and makes its own on first use. Calls made inside a body, and calls made while
/// another thread is using the pool, run on their caller alone.
#pragma once
#include <cstdint>

#include "base/function_ref.h"

namespace weft {

/// Runs `body(begin, end)` over disjoint ranges that cover [0, n), on up to get_num_threads()
/// threads, and returns when all have finished. `n <= grain` is one call on the caller. A body must
/// not fork.
///
/// Note [Same bits on any number of threads]
/// Every `begin` is a multiple of `grain`, every `end` is a multiple of `grain` or `n`; how many
/// multiples one range spans is NOT fixed: it changes with the thread count. So a body's result
/// for an index must not depend on where its range begins or ends, given that both are multiples
/// of `grain`. Two ways to get that:
/// - pointwise: take a grain that is a multiple of the vector width (64 does for every type), so
///   that the scalar remainder of a vector loop falls on the last `n % 64` indices and no others;
/// - partial results: cut the work into blocks by its shape alone, give each block a slot,
///   `parallel_for(blocks, 1, ...)` to fill the slots, and combine the slots in order afterwards.
///
/// The first exception thrown by a body reaches the caller once the ranges already begun have
/// ended; ranges not yet begun are skipped.
void parallel_for(int64_t n, int64_t grain, FunctionRef<void(int64_t begin, int64_t end)> body);

/// Threads that parallel_for may use, the caller included. Before any set_num_threads:
/// WEFT_NUM_THREADS, else OMP_NUM_THREADS, else the physical cores this process may run on.
int get_num_threads();

/// Sets it for the whole process, from the next parallel_for on. Clamped to 1 .. max_threads.
void set_num_threads(int count);

/// True inside a body that the pool runs, where a nested parallel_for would run serially. False in
/// a call that never left its caller (n <= grain, one thread): a nested call may use the pool.
bool in_parallel_region();

inline constexpr int max_threads = 256;

}  // namespace weft
