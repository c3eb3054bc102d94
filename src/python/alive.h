/// Who counts passes of backward, to tell when graphs of earlier ones are not freed.
#pragma once
#include <cstdint>

namespace weft::python {

/// Note [Growth]
/// A graph that a program goes on holding, as `total += loss` does, shows as nodes of many earlier
/// passes that are alive. How many there are is asked at few passes, 128 and then each power of two, by a
/// walk over all that is alive (Note [Alive]): no call and no node is counted. Of the last `kWindow`
/// passes it is known where in the order of recording each ended; weft/see/alive.py compares.
class Passes {
public:
    static constexpr uint64_t kWindow = 64;
    /// A pass of the user's has ended. May raise (PythonError): the warning, where that is an error.
    void end(uint64_t nodes_made) {
        ends_[count_ % kWindow] = nodes_made;
        if (++count_ == next_) [[unlikely]]
            look();
    }

private:
    void look();
    uint64_t count_ = 0, next_ = 2 * kWindow;
    uint64_t ends_[kWindow];
};
inline Passes passes;

}  // namespace weft::python
