// `varifocal suites import-helmet`: its flags, and the import with its messages.
//
// Threads: one.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "client/console.h"
#include "client/flags.h"
#include "client/tokenizers.h"
#include "client/usage.h"

namespace varifocal::client {

class HelmetImportFlags {
 public:
  void AddTo(FlagSet& flags);
  // A UsageError when one of them was given without import-helmet.
  absl::Status CheckUnused() const;
  absl::StatusOr<ExitCode> Run(Console& console) const;

 private:
  std::string checkout_, data_, out_, length_tokenizer_, configs_, lengths_, profile_;
  TokenizerFlags tokenizer_;
  bool no_chat_ = false;
};

}  // namespace varifocal::client
