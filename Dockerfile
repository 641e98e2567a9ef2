# One static binary, its manual and the certificates it needs: no shell, no libc, nothing to patch.
#     docker build --build-arg COMMIT=$(git rev-parse --short=12 HEAD) -t shardpack .
ARG RUST=1.95
FROM rust:${RUST}-bookworm AS build
WORKDIR /build
COPY Cargo.toml Cargo.lock ./
COPY src src
# Cargo.toml names them; they are not built.
COPY benches benches
COPY fixtures fixtures
# --target, so that build scripts and macros stay dynamic. The commit is in --version; no time and no path of this machine is.
ARG COMMIT=
ARG TARGET=x86_64-unknown-linux-gnu
RUN SHARDPACK_COMMIT=${COMMIT} RUSTFLAGS="-C target-feature=+crt-static -C strip=symbols" \
    cargo build --release --locked --bin shardpack --target ${TARGET} \
    && cp target/${TARGET}/release/shardpack /shardpack \
    && /shardpack man -q /share/man/man1 && mkdir -p /share/bash-completion/completions \
    && /shardpack completions bash > /share/bash-completion/completions/shardpack

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /shardpack /shardpack
# For whoever copies the binary out of the image.
COPY --from=build /share /usr/local/share
USER 65532:65532
ENTRYPOINT ["/shardpack"]
