/// The binding that weft does not have: `a + b` through nanobind, over the same core objects
/// (docs/decisions/0001-binding.md). Not part of the build. By hand, after `pip install nanobind`:
///
///   NB=$(python -c "import nanobind; print(nanobind.include_dir())")
///   FLAGS="-std=c++20 -O3 -fPIC -fvisibility=hidden -DNDEBUG $(python3-config --includes)"
///   g++ $FLAGS -I$NB -I$NB/../ext/robin_map/include -Isrc -shared -o nbadd.so \
///       bench/nanobind_add.cpp $NB/../src/nb_combined.cpp -fno-strict-aliasing \
///       $(find build -name '*.o' | grep -v src/python/) -ldl -lpthread
///   python -m timeit -s "import nbadd; a = nbadd.ones(4); b = nbadd.ones(4)" "a + b"
#include <nanobind/nanobind.h>
#include <nanobind/operators.h>

#include "ops/functions.h"

namespace nb = nanobind;
using namespace weft;

namespace {

Tensor ones(int64_t n) {
    Tensor t = Tensor::empty(DType::Float32, Dims{n});
    for (int64_t i = 0; i < n; ++i) t.data<float>()[i] = 1;
    return t;
}
Tensor add(const Tensor& a, const Tensor& b) { return ops::add(a, b); }

}  // namespace

namespace weft {
void install();  // the graph's hooks (autograd/record.cpp)
}

NB_MODULE(nbadd, m) {
    install();
    nb::class_<Tensor>(m, "Tensor").def("__add__", add, nb::is_operator()).def("add", add);
    m.def("ones", ones);
    m.def("add", add);
}
