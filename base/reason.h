// Machine-readable error reasons: a constant in UPPER_SNAKE_CASE stored in an absl::Status payload.
//
// A status message is for people and may be reworded; the reason is part of the interface. The service sends it as
// google.rpc.ErrorInfo, the database stores it as the error code of a sample.
#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace varifocal {

// clang-format off
#define VF_ERROR_REASONS(X) \
  X(kAddressInUse, "ADDRESS_IN_USE") \
  X(kBadAttentionOverride, "BAD_ATTENTION_OVERRIDE") \
  X(kBadChat, "BAD_CHAT") \
  X(kBadContinuation, "BAD_CONTINUATION") \
  X(kBadCredentials, "BAD_CREDENTIALS") \
  X(kBadDevice, "BAD_DEVICE") \
  X(kBadDirectory, "BAD_DIRECTORY") \
  X(kBadEndpoint, "BAD_ENDPOINT") \
  X(kBadFileRoot, "BAD_FILE_ROOT") \
  X(kBadFocalTemperature, "BAD_FOCAL_TEMPERATURE") \
  X(kBadInspection, "BAD_INSPECTION") \
  X(kBadJobSpec, "BAD_JOB_SPEC") \
  X(kBadListenAddress, "BAD_LISTEN_ADDRESS") \
  X(kBadMaxNewTokens, "BAD_MAX_NEW_TOKENS") \
  X(kBadMinP, "BAD_MIN_P") \
  X(kBadModelName, "BAD_MODEL_NAME") \
  X(kBadPageSize, "BAD_PAGE_SIZE") \
  X(kBadPageToken, "BAD_PAGE_TOKEN") \
  X(kBadRequestId, "BAD_REQUEST_ID") \
  X(kBadResourceName, "BAD_RESOURCE_NAME") \
  X(kBadSamplingTemperature, "BAD_SAMPLING_TEMPERATURE") \
  X(kBadScores, "BAD_SCORES") \
  X(kBadStop, "BAD_STOP") \
  X(kBadThinking, "BAD_THINKING") \
  X(kBadTokenId, "BAD_TOKEN_ID") \
  X(kBadTopK, "BAD_TOP_K") \
  X(kBadTopP, "BAD_TOP_P") \
  X(kCannotListen, "CANNOT_LISTEN") \
  X(kChatFormatsDiffer, "CHAT_FORMATS_DIFFER") \
  X(kChatFormatChanged, "CHAT_FORMAT_CHANGED") \
  X(kContextTooLong, "CONTEXT_TOO_LONG") \
  X(kDatabaseInUse, "DATABASE_IN_USE") \
  X(kDevicesDiffer, "DEVICES_DIFFER") \
  X(kDeviceFaulted, "DEVICE_FAULTED") \
  X(kEmptyContinuation, "EMPTY_CONTINUATION") \
  X(kEmptyPrompt, "EMPTY_PROMPT") \
  X(kEndpointBadReply, "ENDPOINT_BAD_REPLY") \
  X(kEndpointBudgetSpent, "ENDPOINT_BUDGET_SPENT") \
  X(kEndpointFaulted, "ENDPOINT_FAULTED") \
  X(kEndpointOtherModel, "ENDPOINT_OTHER_MODEL") \
  X(kEndpointRefused, "ENDPOINT_REFUSED") \
  X(kEndpointWithoutAttention, "ENDPOINT_WITHOUT_ATTENTION") \
  X(kEndpointWithoutLogprobs, "ENDPOINT_WITHOUT_LOGPROBS") \
  X(kEndpointWithoutSampling, "ENDPOINT_WITHOUT_SAMPLING") \
  X(kEndpointWrongCount, "ENDPOINT_WRONG_COUNT") \
  X(kImpossibleLength, "IMPOSSIBLE_LENGTH") \
  X(kJobCancelling, "JOB_CANCELLING") \
  X(kJobFinished, "JOB_FINISHED") \
  X(kJobNotEnded, "JOB_NOT_ENDED") \
  X(kJobNotFound, "JOB_NOT_FOUND") \
  X(kKvCacheTooSmall, "KV_CACHE_TOO_SMALL") \
  X(kLaneFull, "LANE_FULL") \
  X(kMixedExecution, "MIXED_EXECUTION") \
  X(kModelAlreadyLoaded, "MODEL_ALREADY_LOADED") \
  X(kModelChanged, "MODEL_CHANGED") \
  X(kModelInUse, "MODEL_IN_USE") \
  X(kModelLoading, "MODEL_LOADING") \
  X(kModelNotFound, "MODEL_NOT_FOUND") \
  X(kModelWithoutChatFormat, "MODEL_WITHOUT_CHAT_FORMAT") \
  X(kModelWithoutTokenizer, "MODEL_WITHOUT_TOKENIZER") \
  X(kNotEnoughMemory, "NOT_ENOUGH_MEMORY") \
  X(kNoDatabase, "NO_DATABASE") \
  X(kNoSystemMessage, "NO_SYSTEM_MESSAGE") \
  X(kNumericError, "NUMERIC_ERROR") \
  X(kPathOutsideRoots, "PATH_OUTSIDE_ROOTS") \
  X(kPromptTooLong, "PROMPT_TOO_LONG") \
  X(kQueueFull, "QUEUE_FULL") \
  X(kRemoteListenAddress, "REMOTE_LISTEN_ADDRESS") \
  X(kRequestChanged, "REQUEST_CHANGED") \
  X(kRequestIdReused, "REQUEST_ID_REUSED") \
  X(kShuttingDown, "SHUTTING_DOWN") \
  X(kTokenExpired, "TOKEN_EXPIRED") \
  X(kTooManyCalls, "TOO_MANY_CALLS") \
  X(kWorkersDiffer, "WORKERS_DIFFER")
// clang-format on

enum class ErrorReason {
#define VF_ENUMERATOR(name, text) name,
  VF_ERROR_REASONS(VF_ENUMERATOR)
#undef VF_ENUMERATOR
};

absl::string_view ErrorReasonName(ErrorReason reason);

struct Reason {
  std::string name;                             // of an ErrorReason, or of the status code where none is attached
  std::map<std::string, std::string> metadata;  // lowerCamelCase keys; `field` is the path of an invalid request field
};

// The same status with a reason, replacing an earlier one. An OK status is returned unchanged.
absl::Status WithReason(absl::Status status, ErrorReason reason, std::map<std::string, std::string> metadata = {});

// The same status, reason and metadata, with another value of `key`.
absl::Status WithMetadata(const absl::Status& status, const std::string& key, const std::string& value);
inline absl::Status WithField(const absl::Status& status, const std::string& field) {
  return WithMetadata(status, "field", field);
}

// Its `field`; empty where it has none. The status is not OK.
std::string FieldOf(const absl::Status& status);

// The reason that was attached, or one derived from the code ("NOT_FOUND"). The status is not OK.
Reason ReasonOf(const absl::Status& status);
bool HasReason(const absl::Status& status, ErrorReason reason);

}  // namespace varifocal
