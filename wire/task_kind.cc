#include "wire/task_kind.h"

#include <map>
#include <string>

namespace varifocal {
namespace {

const char* TypeName(ParameterType type) {
  switch (type) {
    case ParameterType::kInteger:
      return "integer";
    case ParameterType::kNumber:
      return "number";
    case ParameterType::kText:
      return "text";
    case ParameterType::kPath:
      return "path";
    case ParameterType::kChoice:
      return "choice";
    case ParameterType::kTextList:
      return "text_list";
  }
  return "";
}

}  // namespace

v1::TaskKind ToProto(const TaskKind& kind) {
  v1::TaskKind proto;
  proto.set_kind(kind.name);
  proto.set_description(kind.summary);
  std::map<std::string, std::string> defaults;
  for (const ParameterInfo& info : kind.parameters) {
    if (!info.default_value.empty()) defaults[info.name] = info.default_value;
    v1::TaskParameter& parameter = *proto.add_parameters();
    parameter.set_name(info.name);
    parameter.set_type(TypeName(info.type));
    parameter.set_default_value(info.default_value);
    parameter.set_required(info.required);
    parameter.set_low(info.low);
    parameter.set_high(info.high);
    for (const std::string& choice : info.choices) parameter.add_choices(choice);
    parameter.set_help(info.help);
  }
  for (const std::string& metric : kind.default_metrics(defaults)) proto.add_default_metrics(metric);
  return proto;
}

}  // namespace varifocal
