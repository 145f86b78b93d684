// An extender that keeps every node and scores none: what is lost beside it, kube-scheduler loses to any extender.
//
// Arguments: address, certificate, key, and the certificate of the authority of its clients.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"os"
)

type arguments struct {
	NodeNames json.RawMessage
}

type filterResult struct {
	NodeNames json.RawMessage
}

func filter(w http.ResponseWriter, r *http.Request) {
	var args arguments
	if err := json.NewDecoder(r.Body).Decode(&args); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(filterResult{NodeNames: args.NodeNames})
}

func prioritize(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, "[]")
}

func main() {
	address, certificate, key, authority := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	pem, err := os.ReadFile(authority)
	if err != nil {
		log.Fatal(err)
	}
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(pem)
	http.HandleFunc("POST /filter", filter)
	http.HandleFunc("POST /prioritize", prioritize)
	server := http.Server{
		Addr:      address,
		TLSConfig: &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients},
	}
	log.Fatal(server.ListenAndServeTLS(certificate, key))
}
