/// Other threads' turns, while a program runs that CPython's loop does not see.
#pragma once
#include <ctime>
#include <utility>

#include "python/object.h"

namespace weft::python {

class Turns {
public:
    /// Lets go of the interpreter and takes it again, but not more often than every 10 ms: a thread that waits asks
    /// for its turn after 5 ms in which nobody else had one; what lets go more often, and takes the lock again, is
    /// never asked.
    void offer() {
        timespec now;
        clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
        const int64_t turn = now.tv_sec * 100 + now.tv_nsec / 10'000'000;
        if (std::exchange(last_, turn) == turn) return;
        PyThreadState* state = PyEval_SaveThread();
        into_python([&] { PyEval_RestoreThread(state); });
    }

private:
    int64_t last_ = 0;
};

}  // namespace weft::python
