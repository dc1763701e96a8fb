#include "client/verb.h"

namespace varifocal::client {

const std::vector<const Verb*>& Verbs() {
  static const std::vector<const Verb*> verbs = {
      // Jobs
      &kSubmitVerb,
      &kWatchVerb,
      &kListVerb,
      &kShowVerb,
      &kCancelVerb,
      &kResumeVerb,
      &kDeleteVerb,
      &kRunVerb,
      &kSlurmVerb,
      // Results
      &kCompareVerb,
      &kReportVerb,
      &kDashboardVerb,
      &kAttentionVerb,
      &kQueryVerb,
      &kDiffVerb,
      &kRescoreVerb,
      &kJudgeVerb,
      &kImportVerb,
      &kExportVerb,
      &kBackupVerb,
      &kMergeVerb,
      // Models
      &kModelsVerb,
      &kLoadVerb,
      &kUnloadVerb,
      &kHealthVerb,
      &kGenerateVerb,
      &kScoreVerb,
      &kGroupsVerb,
      &kTokenizeVerb,
      &kDetokenizeVerb,
      // Tasks
      &kTasksVerb,
      &kSuitesVerb,
      &kImportDataVerb,
      &kSamplesVerb,
      &kMetricVerb,
      // This program
      &kCompletionVerb,
  };
  return verbs;
}

}  // namespace varifocal::client
