/// Who counts passes of backward, to tell when graphs of earlier ones are not freed.
#pragma once
#include <cstdint>

#include "autograd/node.h"

namespace weft::python {

/// Note [Growth]
/// A graph that a program goes on holding, as `total += loss` does, shows as nodes of many earlier
/// passes that are alive. At few passes, 128 and then each power of two, it is asked whether there are
/// more nodes than `kWindow` passes before, by about one for each. If so twice in a row, as the graphs of
/// a history of some passes come to be full, it is asked whose they are, by a walk over all that is alive
/// (Note [Alive]). Passes that make graphs do not count, for these go on. Of the others it is known where
/// in the order of recording each ended; weft/see/alive.py compares.
class Passes {
public:
    static constexpr uint64_t kWindow = 64, kFew = 4;
    /// A pass of the user's has ended. May raise (PythonError): the warning, where that is an error.
    void end() {
        ends_[count_ % kWindow] = nodes_made();
        if (++count_ == next_) [[unlikely]]
            look();
    }

private:
    void look();
    void tell();
    uint64_t count_ = 0, next_ = kWindow;  ///< where nodes are counted next
    bool begun_ = false;                   ///< a window, at the end of which they are compared
    int grown_ = 0;                        ///< windows in a row at whose end there were more
    uint64_t before_ = 0;                  ///< nodes that were alive where it began
    uint64_t ends_[kWindow];
};
inline Passes passes;

}  // namespace weft::python
