/// An attribute of a call: everything an op takes that is not a tensor.
#pragma once
#include <cstdint>
#include <string>

#include "tensor/tensor.h"

namespace weft {

class Value {
public:
    enum class Kind : uint8_t { None, Bool, Int, Float, Complex, DType, Ints, Text };

    Value() = default;
    Value(bool v) : kind_(Kind::Bool) { u_.i = v; }
    Value(int v) : kind_(Kind::Int) { u_.i = v; }
    Value(int64_t v) : kind_(Kind::Int) { u_.i = v; }
    Value(double v) : kind_(Kind::Float) { u_.d = v; }
    Value(std::complex<double> v) : kind_(Kind::Complex), box_(new Box{0, {}, {}, v.imag()}) {
        u_.d = v.real();
    }
    Value(weft::DType v) : kind_(Kind::DType) { u_.i = static_cast<int64_t>(v); }
    Value(DimSpan v) : kind_(Kind::Ints), box_(new Box{0, Dims(v), {}, 0}) {}
    Value(const Dims& v) : Value(DimSpan(v)) {}
    Value(const std::string& v) : kind_(Kind::Text), box_(new Box{0, {}, v, 0}) {}
    Value(const char* v) : Value(std::string(v)) {}

    Kind kind() const { return kind_; }
    bool none() const { return kind_ == Kind::None; }
    explicit operator bool() const { return !none(); }
    bool as_bool() const { return u_.i != 0; }
    int64_t as_int() const { return in_double() ? static_cast<int64_t>(u_.d) : u_.i; }
    double as_double() const { return in_double() ? u_.d : static_cast<double>(u_.i); }
    std::complex<double> as_complex() const {
        return {as_double(), kind_ == Kind::Complex ? box_->imag : 0};
    }
    weft::DType as_dtype() const { return static_cast<weft::DType>(u_.i); }
    weft::DType as_dtype(weft::DType otherwise) const { return none() ? otherwise : as_dtype(); }
    DimSpan as_ints() const { return box_->ints; }
    const std::string& as_text() const { return box_->text; }

private:
    struct Box {
        uint32_t refs;
        Dims ints;
        std::string text;
        double imag;
        friend void release(Box* box) { delete box; }
    };
    bool in_double() const { return kind_ == Kind::Float || kind_ == Kind::Complex; }

    Kind kind_ = Kind::None;
    union {
        int64_t i = 0;
        double d;
    } u_;
    Ref<Box> box_;
};

}  // namespace weft
