// Command client is Go's net/http against `fulmar serve` over HTTP/2.
//
// Arguments: the base URL of a server over TLS with test endpoints, and the authority to trust. It
// exits with 1 at the first response that is not as expected.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"
)

func main() {
	base, authority := os.Args[1], os.Args[2]
	if err := check(base, authority); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func check(base, authority string) error {
	pem, err := os.ReadFile(authority)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: roots},
		ForceAttemptHTTP2: true,
	}
	client := &http.Client{Transport: transport, Timeout: time.Minute}

	if err := expect(client, "GET", base+"/hello.txt", nil, 200, []byte("hello, world\n")); err != nil {
		return err
	}
	if err := expect(client, "GET", base+"/none", nil, 404, nil); err != nil {
		return err
	}
	if err := expect(client, "HEAD", base+"/hello.txt", nil, 200, []byte{}); err != nil {
		return err
	}
	upload := bytes.Repeat([]byte("up"), 500_000)
	if err := expect(client, "POST", base+"/echo", upload, 200, upload); err != nil {
		return err
	}
	if err := parallel(client, base); err != nil {
		return err
	}
	if err := cancelled(client, base); err != nil {
		return err
	}
	large := bytes.Repeat([]byte("L"), 3_000_000)
	return expect(client, "GET", base+"/large.bin", nil, 200, large)
}

// expect sends a request and compares status and body; any body will do for nil.
func expect(client *http.Client, method, url string, body []byte, status int, wanted []byte) error {
	request, err := http.NewRequest(method, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	received, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return err
	case response.ProtoMajor != 2:
		return fmt.Errorf("%s %s: %s", method, url, response.Proto)
	case response.StatusCode != status:
		return fmt.Errorf("%s %s: status %d", method, url, response.StatusCode)
	case wanted != nil && !bytes.Equal(received, wanted):
		return fmt.Errorf("%s %s: another body of %d bytes", method, url, len(received))
	}
	return nil
}

// parallel has 100 requests outstanding at a time.
func parallel(client *http.Client, base string) error {
	results := make(chan error, 100)
	var group sync.WaitGroup
	for n := 0; n < cap(results); n++ {
		group.Add(1)
		go func(size int) {
			defer group.Done()
			response, err := client.Get(fmt.Sprintf("%s/bytes/%d", base, size))
			if err != nil {
				results <- err
				return
			}
			defer response.Body.Close()
			if received, err := io.Copy(io.Discard, response.Body); err != nil || received != int64(size) {
				results <- fmt.Errorf("/bytes/%d: %d bytes, %v", size, received, err)
			}
		}(n * 100)
	}
	group.Wait()
	close(results)
	return <-results
}

// cancelled gives up a request whose response takes a minute.
func cancelled(client *http.Client, base string) error {
	context, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	request, err := http.NewRequestWithContext(context, "GET", base+"/delay/60000", nil)
	if err != nil {
		return err
	}
	if _, err := client.Do(request); !errors.Is(err, context.Err()) {
		return fmt.Errorf("a cancelled request ended with %v", err)
	}
	return nil
}
