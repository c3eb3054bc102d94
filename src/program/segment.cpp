#include "program/segment.h"

#include <algorithm>
#include <sstream>

namespace weft::program {

Segment::Place Segment::place_of(int32_t v) const {
    Place place{v, 0};
    while (value(place.root).kind == SegmentValue::Kind::View) {
        place.offset += value(place.root).offset;
        place.root = value(place.root).of;
    }
    return place;
}

bool Segment::draws() const {
    return std::any_of(steps.begin(), steps.end(), [](const Step& s) { return s.op->random; });
}

bool Segment::inputs_fit(const Tensor* tensors, size_t count) const {
    if (count != inputs.size()) return false;
    for (size_t i = 0; i < count; ++i)
        if (!input_fits(i, tensors[i])) return false;
    return true;
}

Ref<Segment> Segment::copy() const {
    Ref<Segment> made(new Segment);
    made->values = values;
    made->steps.reserve(steps.size());
    for (const Step& s : steps)
        made->steps.push_back({s.op, s.first_operand, s.operands, s.first_attr, s.first_out, s.outs,
                               s.recorded, s.site.copy()});
    made->operands = operands;
    made->attrs = attrs;
    made->inputs = inputs;
    made->outputs = outputs;
    return made;
}

namespace {

void print(std::ostream& out, const Value& v) {
    switch (v.kind()) {
        case Value::Kind::None:
            out << "None";
            return;
        case Value::Kind::Bool:
            out << (v.as_bool() ? "True" : "False");
            return;
        case Value::Kind::Int:
            out << v.as_int();
            return;
        case Value::Kind::Float:
            out << v.as_double();
            return;
        case Value::Kind::Complex:
            out << v.as_complex();
            return;
        case Value::Kind::DType:
            out << name(v.as_dtype());
            return;
        case Value::Kind::Ints:
            out << to_string(v.as_ints());
            return;
        case Value::Kind::Text:
            out << '\'' << v.as_text() << '\'';
            return;
    }
}

void print_layout(std::ostream& out, const Tensor& t) {
    out << " : " << name(t.dtype()) << to_string(t.shape());
    if (!t.contiguous()) out << " strides " << to_string(t.strides());
    if (t.has(kWrapped)) out << " number";
}

void print_number(std::ostream& out, const Tensor& t) {
    if (t.numel() != 1) return;
    if (is_complex(t.dtype())) out << ' ' << t.item_complex();
    else if (is_floating(t.dtype())) out << ' ' << t.item_double();
    else out << ' ' << t.item_int();
}

void print(std::ostream& out, const Segment& segment, const Step& step) {
    for (int32_t k = 0; k < step.outs; ++k) out << (k ? ", %" : "%") << step.first_out + k;
    out << " = " << step.op->name << '(';
    const char* comma = "";
    for (int i = 0; i < step.operands; ++i) {
        const int32_t v = segment.operand(step, i);
        out << std::exchange(comma, ", ");
        if (v < 0) out << "None";
        else out << '%' << v;
    }
    for (const Param& p : step.op->params) {
        if (p.is_input()) continue;
        out << std::exchange(comma, ", ") << p.name << '=';
        print(out, segment.attrs[static_cast<size_t>(step.first_attr + p.slot)]);
    }
    out << ')';
    for (int32_t k = 0; k < step.outs; ++k) print_layout(out, segment.layout(step.first_out + k));
    out << '\n';
}

}  // namespace

std::string Segment::text() const {
    std::ostringstream out;
    int32_t printed = -1;
    for (size_t v = 0; v < values.size(); ++v) {
        const SegmentValue& of = values[v];
        if (of.step >= 0) {
            if (of.step != printed) print(out, *this, steps[static_cast<size_t>(of.step)]);
            printed = of.step;
            continue;
        }
        out << '%' << v << " = ";
        if (of.kind == SegmentValue::Kind::View) out << "detach(%" << of.of << ')';
        else out << (of.kind == SegmentValue::Kind::Input ? "input" : "constant");
        if (of.kind == SegmentValue::Kind::Constant) print_number(out, of.layout);
        print_layout(out, of.layout);
        out << '\n';
    }
    out << "return";
    const char* comma = " %";
    for (int32_t v : outputs) out << std::exchange(comma, ", %") << v;
    out << '\n';
    return out.str();
}

}  // namespace weft::program
