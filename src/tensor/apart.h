/// Memory that several storages show, each with a version of its own (Tensor::apart).
#pragma once
#include "tensor/storage.h"

namespace weft {

/// Whose memory it is: the storage itself, unless it was made by `apart`.
Storage& memory_of(Storage& storage);

}  // namespace weft
