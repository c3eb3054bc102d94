/// The loops that convert float16 to float and back.
#pragma once
#include "kernels/map.h"

namespace weft::kernels {

MapLoop half_to_float();
MapLoop float_to_half();

}  // namespace weft::kernels
