// How logits of experts become the experts of a row and their weights, where it is more than a softmax.
//
//   score_e = share of all experts (softmax), or 1 / (1 + e^-logit_e)
//   rank_e  = score_e + choice bias_e, which only chooses
//   groups: E / G neighbouring experts each; those with the largest group scores are kept, ties to the lower group
//   a row's experts: the largest ranks in kept groups, ties to the lower expert
//   weight_e = scaling * score_e, or of its share of the scores of the row's experts
//
// transformers leaves ties of groups and experts to torch.topk, which may choose others among equals; sigmoids saturate, so
// that ties are more likely than those of logits.
//
// Source: DeepSeek-AI 2024, arXiv:2405.04434 section 2.2 (groups of experts), arXiv:2412.19437 section 2.1.2 (choice bias).
#pragma once

namespace varifocal::kernels {

// A device ranks the experts of a row in one block.
inline constexpr int kExpertsMax = 512;
// Added to the sum of sigmoids by which they are divided.
inline constexpr float kScoreSumFloor = 1e-20f;

enum class ExpertScore { kSoftmax, kSigmoid };
enum class GroupScore { kLargest, kTwoLargest };  // the largest rank of a group, or the sum of its two largest

struct ExpertRouting {
  ExpertScore score = ExpertScore::kSoftmax;
  int group_count = 1;  // G, a divisor of E; groups of kTwoLargest have two experts at least
  int groups_kept = 1;  // they have per_token experts at least
  GroupScore group_score = GroupScore::kLargest;
  float scaling = 1;
};

}  // namespace varifocal::kernels
