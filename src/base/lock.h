/// The core lock, seen from below Python: see Note [One lock] in ref.h.
#pragma once

namespace weft {

/// Installed once by src/python; null functions mean that nobody holds a lock.
struct LockHooks {
    void* (*release)() = nullptr;
    void (*acquire)(void*) = nullptr;
};
inline LockHooks lock_hooks;
/// A scope in which the lock must stay held although a kernel is long (see `Locked`).
inline thread_local int keep_locked = 0;

/// Releases the core lock for the scope if the work is long enough to be worth it. Inside, only
/// raw pointers may be touched.
class Unlocked {
public:
    /// `elements`: about how many element operations will be done.
    explicit Unlocked(long long elements) {
        if (elements >= 200000 && keep_locked == 0 && lock_hooks.release)
            state_ = lock_hooks.release();
    }
    ~Unlocked() {
        if (state_) lock_hooks.acquire(state_);
    }
    Unlocked(const Unlocked&) = delete;

private:
    void* state_ = nullptr;
};

/// Keeps the lock through the scope: for kernels that write what other threads may write too
/// (accumulation into a shared leaf's gradient).
class Locked {
public:
    Locked() { ++keep_locked; }
    ~Locked() { --keep_locked; }
    Locked(const Locked&) = delete;
};

}  // namespace weft
