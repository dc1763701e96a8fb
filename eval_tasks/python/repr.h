// repr() of texts and floats, as Python prints the items of a list.
//
// Source: CPython's unicode_repr and float_repr_style "short".
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace varifocal {

std::string PythonRepr(absl::string_view utf8);
std::string PythonRepr(double value);

}  // namespace varifocal
