//! The bearer token: `authorization: Bearer <token>` on every call.
//!
//! Guarantees: the comparison takes the same time wherever two tokens differ; an error never shows a token.

use std::fmt;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::{Request, Status};

use crate::error::{Problem, RpcError};

/// Adds the token to every call. Without one it changes nothing.
#[derive(Clone, Default)]
pub struct SendToken(Option<MetadataValue<Ascii>>);

impl SendToken {
    /// Fails when the token has characters that no HTTP header may have.
    pub fn new(token: Option<&str>) -> Result<Self, RpcError> {
        let Some(token) = token else { return Ok(Self(None)) };
        let mut value: MetadataValue<Ascii> = format!("Bearer {token}").parse().map_err(|_| RpcError::Token)?;
        value.set_sensitive(true);
        Ok(Self(Some(value)))
    }
}

impl fmt::Debug for SendToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "SendToken(******)" } else { "SendToken(none)" })
    }
}

impl Interceptor for SendToken {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(value) = &self.0 {
            request.metadata_mut().insert("authorization", value.clone());
        }
        Ok(request)
    }
}

/// Lets a call through if it brings the token, or if no token is set.
#[derive(Clone)]
pub struct RequireToken(Option<Arc<[u8; 32]>>);

impl RequireToken {
    pub fn new(token: Option<&str>) -> Self {
        Self(token.map(|token| Arc::new(digest(token))))
    }

    /// Checks the value of an `authorization` header.
    pub fn check(&self, authorization: Option<&[u8]>) -> Result<(), Problem> {
        let Some(expected) = &self.0 else { return Ok(()) };
        let refused = |detail: &str| Err(Problem::Unauthenticated { detail: detail.to_owned() });
        let Some(value) = authorization else { return refused("the call brings no token") };
        let Some(token) = std::str::from_utf8(value).ok().and_then(bearer) else {
            return refused("the authorization header is no bearer token");
        };
        // digests have one length, and where they differ says nothing about the token
        let difference = digest(token).iter().zip(expected.iter()).fold(0u8, |sum, (a, b)| sum | (a ^ b));
        if std::hint::black_box(difference) == 0 { Ok(()) } else { refused("the token is not this cluster's") }
    }
}

impl fmt::Debug for RequireToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "RequireToken(******)" } else { "RequireToken(none)" })
    }
}

impl Interceptor for RequireToken {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        self.check(request.metadata().get("authorization").map(|value| value.as_bytes()))?;
        Ok(request)
    }
}

fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_right_token_passes() {
        let require = RequireToken::new(Some("s3cret"));
        assert_eq!(require.check(Some(b"Bearer s3cret")), Ok(()));
        assert_eq!(require.check(Some(b"bearer s3cret")), Ok(()));
        for wrong in [None, Some(&b"Bearer s3cre"[..]), Some(b"Bearer s3cretx"), Some(b"Basic s3cret"), Some(b"\xff")] {
            let problem = require.check(wrong).unwrap_err();
            assert!(matches!(problem, Problem::Unauthenticated { .. }));
            assert!(!problem.to_string().contains("s3cret"));
        }
        assert_eq!(RequireToken::new(None).check(None), Ok(()));
    }

    #[test]
    fn a_sent_token_is_the_required_one_and_never_shown() {
        let mut send = SendToken::new(Some("abc")).unwrap();
        let request = send.call(Request::new(())).unwrap();
        RequireToken::new(Some("abc")).call(request).unwrap();
        assert!(!format!("{send:?}").contains("abc"));
        assert!(matches!(SendToken::new(Some("a\nb")), Err(RpcError::Token)));
    }
}
