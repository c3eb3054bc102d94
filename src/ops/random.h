/// The process's random numbers. Draws happen under the core lock (Note [One lock] in base/ref.h).
#pragma once
#include <array>
#include <cstddef>
#include <span>
#include <utility>

#include "kernels/random.h"
#include "ops/scopes.h"

namespace weft::ops {

/// The generator that ops draw from: the default one, unless a GeneratorScope names another.
kernels::Generator& generator();
kernels::Generator& default_generator();

/// Makes ops of this thread draw from another generator (`generator=` in Python).
class GeneratorScope {
public:
    explicit GeneratorScope(kernels::Generator& generator)
        : before_(std::exchange(scopes.generator, &generator)) {}
    ~GeneratorScope() { scopes.generator = before_; }
    GeneratorScope(const GeneratorScope&) = delete;

private:
    kernels::Generator* before_;
};

/// A seed from the system's randomness, for `seed()`.
uint64_t entropy_seed();

}  // namespace weft::ops
