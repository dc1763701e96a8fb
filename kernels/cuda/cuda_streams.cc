#include "kernels/cuda/cuda_streams.h"

#include "base/check.h"
#include "base/wide_product.h"

namespace varifocal::kernels::cuda {
namespace {

size_t RowNumbers(const StreamsView& streams) { return WideProduct(streams.row_count, streams.width); }

StreamsView ViewOf(const CudaWorkspace& workspace, const Slice& streams, int count) {
  VF_CHECK(count <= kStreamsMax, "a row has at most 16 streams");
  StreamsView view{.count = count, .row_count = workspace.flat.row_count(), .width = workspace.shape.model_dim};
  view.first = DeviceData<float>(streams, count * RowNumbers(view));
  return view;
}

// Of coefficients [rows, S].
StreamRouterView ViewOf(const StreamRouter& router, const StreamsView& streams, const Slice& coefficients, int rows) {
  return {.norm_weight = DeviceData<float>(router.norm_weight, streams.width),
          .norm_epsilon = router.norm_epsilon,
          .weight = DeviceData<float>(router.router, WideProduct(streams.count, streams.width)),
          .coefficients = DeviceData<float>(coefficients, WideProduct(rows, streams.count))};
}

}  // namespace

Error RunMatchStreams(Device& device, CudaWorkspace& workspace, const MatchStreamsArgs& args) {
  MatchStreamsParams p{.streams = ViewOf(workspace, args.streams, args.stream_count), .floor = args.floor};
  p.first = OptionalDeviceData<float>(args.first, RowNumbers(p.streams));
  p.mean = OptionalDeviceData<float>(args.mean, RowNumbers(p.streams));
  return device.Check(device.kernels().match_streams(p, workspace.stream()), "matching residual streams");
}

Error RunPredictStreams(Device& device, CudaWorkspace& workspace, const PredictStreamsArgs& args) {
  PredictStreamsParams p{.streams = ViewOf(workspace, args.streams, args.stream_count), .active = args.active};
  p.router = ViewOf(args.router, p.streams, args.coefficients, args.stream_count * args.stream_count);
  p.residual = DeviceData<float>(args.residual, RowNumbers(p.streams));
  return device.Check(device.kernels().predict_streams(p, workspace.stream()), "predicting residual streams");
}

Error RunCorrectStreams(Device& device, CudaWorkspace& workspace, const CorrectStreamsArgs& args) {
  CorrectStreamsParams p{.streams = ViewOf(workspace, args.streams, args.stream_count), .active = args.active};
  p.router = ViewOf(args.router, p.streams, args.coefficients, args.stream_count);
  p.made = DeviceData<float>(args.made, RowNumbers(p.streams));
  p.scale = OptionalDeviceData<float>(args.scale, p.streams.width);
  p.out = DeviceData<uint16_t>(args.out, RowNumbers(p.streams));
  return device.Check(device.kernels().correct_streams(p, workspace.stream()), "correcting residual streams");
}

Error RunAddToStreams(Device& device, CudaWorkspace& workspace, const AddToStreamsArgs& args) {
  AddToStreamsParams p{.streams = ViewOf(workspace, args.streams, args.stream_count)};
  p.x = DeviceData<float>(args.x, RowNumbers(p.streams));
  return device.Check(device.kernels().add_to_streams(p, workspace.stream()), "adding to residual streams");
}

Error RunCutGated(Device& device, CudaWorkspace& workspace, const CutGatedArgs& args) {
  CutGatedParams p{.row_count = workspace.flat.row_count(),
                   .width = args.width,
                   .deviations = args.deviations,
                   .activation = args.activation,
                   .terms = args.terms};
  p.x = DeviceData<uint16_t>(args.x, WideProduct(p.row_count, 2, p.width));
  p.out = DeviceData<uint16_t>(args.out, WideProduct(p.row_count, p.width));
  return device.Check(device.kernels().cut_gated(p, workspace.stream()), "cutting gates");
}

}  // namespace varifocal::kernels::cuda
