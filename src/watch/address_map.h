/// Numbers by address, a few nanoseconds each: open addressing, nothing is ever taken out.
#pragma once
#include <cstdint>
#include <vector>

namespace weft::watch {

class AddressMap {
public:
    /// The number kept for (`address`, `offset`), for the caller to set: -1 where there was none.
    int32_t& at(const void* address, int32_t offset = 0) {
        if (2 * count_ >= slots_.size()) grow();
        Slot& slot = find(slots_, address, offset);
        if (!slot.address) {
            slot = {address, offset, -1};
            ++count_;
        }
        return slot.number;
    }

    void clear() { slots_.clear(), count_ = 0; }

private:
    struct Slot {
        const void* address = nullptr;
        int32_t offset = 0, number = -1;
    };
    static Slot& find(std::vector<Slot>& slots, const void* address, int32_t offset) {
        const uint64_t key = reinterpret_cast<uint64_t>(address) + static_cast<uint32_t>(offset);
        size_t i = (key * 0x9E3779B97F4A7C15u) >> 20;
        for (;; ++i) {
            Slot& slot = slots[i & (slots.size() - 1)];
            if (!slot.address || (slot.address == address && slot.offset == offset)) return slot;
        }
    }
    void grow() {
        std::vector<Slot> larger(slots_.empty() ? 1024 : 2 * slots_.size());
        for (const Slot& slot : slots_)
            if (slot.address) find(larger, slot.address, slot.offset) = slot;
        slots_.swap(larger);
    }
    std::vector<Slot> slots_;
    size_t count_ = 0;
};

}  // namespace weft::watch
