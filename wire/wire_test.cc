// Conversions between messages and structs. Method: round trip with every field set to a value that is not its default;
// a field that one direction omits comes back as the default.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "base/reason.h"
#include "base/sha256.h"
#include "google/protobuf/util/message_differencer.h"
#include "tests/support/assign_or_fail.h"
#include "wire/job_spec.h"
#include "wire/resource_names.h"
#include "wire/stored_job.h"
#include "wire/task_kind.h"

namespace varifocal {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Sets every field of the message recursively; lists and maps get one entry.
void SetEveryField(Message* message) {
  const Descriptor& type = *message->GetDescriptor();
  const Reflection& reflection = *message->GetReflection();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor* field = type.field(i);
    const bool add = field->is_repeated();
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE:
        SetEveryField(add ? reflection.AddMessage(message, field) : reflection.MutableMessage(message, field));
        break;
      case FieldDescriptor::CPPTYPE_STRING: {
        const std::string value = type.full_name() == "varifocal.v1.Variant" ? "models/m" : "text-" + field->name();
        add ? reflection.AddString(message, field, value) : reflection.SetString(message, field, value);
        break;
      }
      case FieldDescriptor::CPPTYPE_BOOL:
        reflection.SetBool(message, field, true);
        break;
      case FieldDescriptor::CPPTYPE_DOUBLE:
        add ? reflection.AddDouble(message, field, 0.5 + i) : reflection.SetDouble(message, field, 0.5 + i);
        break;
      case FieldDescriptor::CPPTYPE_INT32:
        add ? reflection.AddInt32(message, field, 7 + i) : reflection.SetInt32(message, field, 7 + i);
        break;
      case FieldDescriptor::CPPTYPE_INT64:
        reflection.SetInt64(message, field, 70 + i);
        break;
      default:
        FAIL() << "a type without a value here: " << field->full_name();
    }
  }
}

TEST(WireTest, EveryFieldOfAJobSpecSurvives) {
  v1::JobSpec proto;
  SetEveryField(&proto);
  proto.mutable_suite()->clear_folder();  // resolved into paths
  v1::Variant& variant = *proto.mutable_variants(0);
  variant.clear_name();  // other forms of the same
  variant.clear_focal_temperatures();
  variant.clear_attention_overrides();
  ASSIGN_OR_FAIL(const auto spec, FromProto(proto));
  const v1::JobSpec back = ToProto(spec);
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(proto, back))
      << proto.DebugString() << back.DebugString();
}

// An absent field has the struct's default, and the conversion back leaves it absent.
TEST(WireTest, AbsentFieldsStayAbsentOrDefault) {
  v1::JobSpec proto;
  proto.mutable_suite()->add_tasks()->set_kind("recall_kv");
  ASSIGN_OR_FAIL(const auto spec, FromProto(proto));
  EXPECT_EQ(spec.suite.seed, 1);
  EXPECT_EQ(spec.suite.samples, kDefaultSampleCount);
  EXPECT_EQ(spec.in_flight, 0);
  const v1::JobSpec back = ToProto(spec);
  EXPECT_FALSE(back.has_limit());
  EXPECT_FALSE(back.has_in_flight());
  EXPECT_FALSE(back.has_top_p());
  EXPECT_FALSE(back.suite().tasks(0).has_samples());
}

TEST(WireTest, AWrongModelNamesItsField) {
  v1::JobSpec proto;
  proto.add_variants()->set_model("models/a");
  proto.add_variants()->set_model("a");
  const absl::Status status = FromProto(proto).status();
  EXPECT_TRUE(HasReason(status, ErrorReason::kBadResourceName)) << status;
  EXPECT_EQ(ReasonOf(status).metadata.at("field"), "spec.variants[1].model");
}

TEST(WireTest, TheDigestDoesNotDependOnTheOrderOfAMap) {
  v1::JobSpec forwards, backwards;
  auto& first = *forwards.mutable_suite()->add_tasks()->mutable_parameters();
  auto& second = *backwards.mutable_suite()->add_tasks()->mutable_parameters();
  for (int i = 0; i < 100; ++i) first[std::to_string(i)] = "x";
  for (int i = 99; i >= 0; --i) second[std::to_string(i)] = "x";
  EXPECT_EQ(MessageSha256(forwards), MessageSha256(backwards));
  second["0"] = "y";
  EXPECT_NE(MessageSha256(forwards), MessageSha256(backwards));
}

v1::Variant Older() {
  v1::Variant variant;
  variant.set_model("models/a");
  variant.add_focal_temperatures(0.5);
  variant.add_focal_temperatures(0.6);
  (*variant.mutable_attention_overrides())["log-n"] = 4096;
  return variant;
}

// A variant in its older form, as a map and as text is the same variant with the same digest, which is that of the older
// message: databases have it.
TEST(WireTest, EveryFormOfAVariantIsTheSame) {
  v1::JobSpec older, map, text;
  *older.add_variants() = Older();
  v1::Variant& as_map = *map.add_variants();
  as_map.set_model("models/a");
  (*as_map.mutable_overrides())["t"].add_values(0.5);
  (*as_map.mutable_overrides())["t"].add_values(0.6);
  (*as_map.mutable_overrides())["log-n"].add_values(4096);
  text.add_variants()->set_name("a@log-n=4096@t=0.50,0.6");
  const JobSpec expected = FromProto(older).value();
  EXPECT_EQ(expected.variants[0].Name(), "a@t=0.5,0.6@log-n=4096");
  EXPECT_EQ(FromProto(map)->variants, expected.variants);
  EXPECT_EQ(FromProto(text)->variants, expected.variants);
  EXPECT_EQ(ToProto(expected).variants(0).SerializeAsString().size(), as_map.SerializeAsString().size());
  EXPECT_EQ(MessageSha256(older), Sha256Hex(older.SerializeAsString()));
  EXPECT_EQ(MessageSha256(map), MessageSha256(older));
  EXPECT_EQ(MessageSha256(text), MessageSha256(older));
  text.mutable_variants(0)->set_name("a@log-n=4096@t=0.5");
  EXPECT_NE(MessageSha256(text), MessageSha256(older));
}

// Digests are looked up before a specification is validated.
TEST(WireTest, AnInvalidVariantHasADigestOfItsOwn) {
  v1::JobSpec plain, empty;
  plain.add_variants()->set_model("models/a");
  *empty.add_variants() = plain.variants(0);
  (*empty.mutable_variants(0)->mutable_overrides())["t"];
  EXPECT_NE(MessageSha256(empty), MessageSha256(plain));
}

TEST(WireTest, AVariantIsGivenOnce) {
  const auto status_of = [](const v1::Variant& variant) {
    v1::JobSpec spec;
    spec.add_variants()->set_model("models/b");
    *spec.add_variants() = variant;
    return FromProto(spec).status();
  };
  v1::Variant twice = Older();
  (*twice.mutable_overrides())["t"].add_values(0.5);
  EXPECT_TRUE(HasReason(status_of(twice), ErrorReason::kBadAttentionOverride)) << status_of(twice);
  EXPECT_EQ(FieldOf(status_of(twice)), "spec.variants[1].overrides");
  v1::Variant also_text = Older();
  also_text.set_name("a@t=0.5");
  EXPECT_TRUE(HasReason(status_of(also_text), ErrorReason::kBadJobSpec)) << status_of(also_text);
  v1::Variant wrong;
  wrong.set_name("a@t=0.5@t=0.6");
  EXPECT_TRUE(HasReason(status_of(wrong), ErrorReason::kBadJobSpec)) << status_of(wrong);
  EXPECT_EQ(FieldOf(status_of(wrong)), "spec.variants[1].name");
}

// Paths seen from a folder are those that a client resolved itself, with the same digest.
TEST(WireTest, PathsAreSeenFromTheFolder) {
  v1::JobSpec spec;
  v1::TaskConfig& task = *spec.mutable_suite()->add_tasks();
  task.set_kind("short");
  (*task.mutable_parameters())["path"] = "rows/../a.jsonl";
  (*task.mutable_parameters())["shots_path"] = "/data/b.jsonl";
  (*task.mutable_parameters())["task"] = "arc";
  EXPECT_EQ(FromProto(spec)->suite.tasks[0].parameters.at("path"), "rows/../a.jsonl") << "without a folder";
  spec.mutable_suite()->set_folder("/suites/mine");
  const JobSpec read = FromProto(spec).value();
  EXPECT_EQ(read.suite.tasks[0].parameters.at("path"), "/suites/mine/a.jsonl");
  EXPECT_EQ(read.suite.tasks[0].parameters.at("shots_path"), "/data/b.jsonl");
  EXPECT_EQ(read.suite.tasks[0].parameters.at("task"), "arc");
  v1::JobSpec resolved = spec;
  resolved.mutable_suite()->clear_folder();
  (*resolved.mutable_suite()->mutable_tasks(0)->mutable_parameters())["path"] = "/suites/mine/a.jsonl";
  EXPECT_EQ(MessageSha256(spec), MessageSha256(resolved));
}

TEST(WireTest, AJobHasEndedAsItsRowHas) {
  for (const db::JobState state : {db::JobState::kQueued, db::JobState::kRunning, db::JobState::kCancelling,
                                   db::JobState::kSucceeded, db::JobState::kFailed, db::JobState::kCancelled}) {
    db::JobRow row;
    row.state = state;
    v1::Job job;
    ToProto(row, {}, {}, {}, &job);
    EXPECT_EQ(IsSettled(job.state()), db::IsSettled(state)) << db::JobStateName(state);
  }
  EXPECT_FALSE(IsSettled(v1::Job::STATE_UNSPECIFIED));
}

TEST(WireTest, ResourceNames) {
  EXPECT_EQ(*ParseModelResource(ModelResource("a.b"), "name"), "a.b");
  EXPECT_EQ(*ParseJobResource(JobResource(17), "name"), 17);
  for (const char* name : {"", "models/", "model/a", "a", "models/9", "models/a/b"}) {
    EXPECT_TRUE(HasReason(ParseModelResource(name, "name").status(), ErrorReason::kBadResourceName)) << name;
  }
  for (const char* name : {"", "jobs/", "jobs/0", "jobs/-1", "jobs/01", "jobs/1x", "1"}) {
    EXPECT_TRUE(HasReason(ParseJobResource(name, "name").status(), ErrorReason::kBadResourceName)) << name;
  }
}

TEST(WireTest, EveryKindOfTaskHasTypedParameters) {
  const std::set<std::string> types = {"integer", "number", "text", "path", "choice", "text_list"};
  for (const TaskKind& kind : TaskKinds()) {
    const v1::TaskKind proto = ToProto(kind);
    EXPECT_EQ(proto.kind(), kind.name);
    EXPECT_EQ(proto.parameters_size(), std::ssize(kind.parameters));
    for (const v1::TaskParameter& parameter : proto.parameters()) {
      EXPECT_TRUE(types.contains(parameter.type())) << kind.name << "." << parameter.name();
      EXPECT_EQ(parameter.type() == "choice", parameter.choices_size() > 0) << kind.name << "." << parameter.name();
    }
  }
}

}  // namespace
}  // namespace varifocal
