#include "deferred/externals.h"

#include <algorithm>

namespace weft::deferred {

int64_t Externals::number(const Tensor& t) {
    const TensorImpl* impl = t.impl();
    int64_t& recent = recent_[(reinterpret_cast<uintptr_t>(impl) >> 7) % kRecent];
    if (recent && static_cast<size_t>(recent) <= tensors_.size() &&
        tensors_[static_cast<size_t>(recent - 1)].impl() == impl)
        return recent - 1;
    auto [it, fresh] = numbers_.try_emplace(impl, static_cast<int64_t>(tensors_.size()));
    if (fresh) tensors_.push_back(t);
    recent = it->second + 1;
    return it->second;
}

int64_t Externals::add(const Tensor& t, uint32_t name) {
    tensors_.push_back(t);
    if (name) {
        names_.resize(tensors_.size());
        names_.back() = name;
    }
    return static_cast<int64_t>(tensors_.size() - 1);
}

uint32_t Externals::name(const Tensor& t, bool weight) {
    auto at = static_cast<size_t>(number(t));
    if (names_.size() <= at) names_.resize(at + 1);
    uint32_t& name = names_[at];
    if (name == 0) name = 2 * ++count_[weight] + weight;
    return name;
}

const Tensor& Externals::first_view(const Tensor& t, const Tensor& base) {
    Key key{reinterpret_cast<uintptr_t>(base.impl()), reinterpret_cast<uintptr_t>(t.bytes()),
            uint64_t{base.version()} << 32 | static_cast<uint64_t>(t.dtype()) << 8 |
                static_cast<uint64_t>(t.ndim())};
    for (int64_t size : t.shape()) key.push_back(static_cast<uint64_t>(size));
    for (int64_t stride : t.strides()) key.push_back(static_cast<uint64_t>(stride));
    bool fresh;
    uint32_t number = view_keys_.number(key.data(), key.size(), fresh);
    if (fresh) first_views_.push_back(t);
    return first_views_[number];
}

void Externals::clear() {
    numbers_.clear();
    std::fill_n(recent_, kRecent, 0);
    names_.clear();
    count_[0] = count_[1] = 0;
    view_keys_.clear();
    first_views_.clear();
    tensors_.clear();
}

}  // namespace weft::deferred
