mod convert;
mod grpc;
